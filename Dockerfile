# An image of Airflow with the provider, the pinned versions of constraints.txt, and the Java that a Spark driver needs.
# docker-compose.yaml and deploy/airflow-chart-values.yaml run it. Built by nobody here: no container engine.
#
#   docker build --tag airflow-cdc .
#   docker build --tag airflow-cdc --build-arg EXTRAS=postgres,rabbitmq .
FROM apache/airflow:3.3.2-python3.11
ARG EXTRAS=all
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
RUN mkdir -p /lake && chown airflow /lake
USER airflow
COPY --chown=airflow . /opt/project
RUN pip install --no-cache-dir --constraint /opt/project/constraints.txt "/opt/project[${EXTRAS}]"
