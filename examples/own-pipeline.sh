#!/bin/sh
# From a database and a connector to a proven copy. Set before: MYSQL (host:port), CONNECT (http://host:port), KAFKA
# (host:port), CATALOG (PyIceberg's properties of the Iceberg catalog, as JSON), CDC_MYSQL_PASSWORD (of the user cdc) and
# DEBEZIUM_PASSWORD (of the user debezium).
set -eu

# 1. a Debezium connector, if you have none; the first copy is made by the recovery, so it need not snapshot
# --8<-- [start:connector]
curl -sS --fail-with-body -X PUT "$CONNECT/connectors/crm/config" -H 'Content-Type: application/json' -o /dev/null -d @- <<JSON
{
  "connector.class": "io.debezium.connector.mysql.MySqlConnector",
  "tasks.max": "1",
  "database.hostname": "${MYSQL%:*}",
  "database.port": "${MYSQL#*:}",
  "database.user": "debezium",
  "database.password": "$DEBEZIUM_PASSWORD",
  "database.server.id": "7301",
  "topic.prefix": "crm",
  "key.converter": "org.apache.kafka.connect.json.JsonConverter",
  "key.converter.schemas.enable": "false",
  "key.converter.replace.null.with.default": "false",
  "value.converter": "org.apache.kafka.connect.json.JsonConverter",
  "value.converter.schemas.enable": "false",
  "value.converter.replace.null.with.default": "false",
  "database.include.list": "crm",
  "table.include.list": "crm.people,crm.notes",
  "snapshot.mode": "no_data",
  "schema.history.internal.kafka.bootstrap.servers": "$KAFKA",
  "schema.history.internal.kafka.topic": "crm.schema-history",
  "heartbeat.interval.ms": "5000",
  "enable.time.adjuster": "false"
}
JSON
# --8<-- [end:connector]

# 2. the pipeline, its connections and the DAG files; every answer may also be given at the prompt
# --8<-- [start:init]
airflow cdc init --pipeline crm --mysql "$MYSQL" --mysql-user cdc --tables crm.people,crm.notes \
  --connector crm --connect "$CONNECT" --kafka "$KAFKA" --catalog lake --catalog-extra "$CATALOG" --stub
# --8<-- [end:init]

# 3. Airflow looks for new DAG files every few minutes: read them now
airflow dags reserialize

# 4. does everything fit?
airflow cdc doctor crm

# 5. TABLE_ADDED: declared, nothing copied yet. A problem is exit status 1
airflow cdc diagnose crm || [ $? -eq 1 ]

# 6. the first copy, proven row by row before anybody can read it
airflow cdc recover crm --wait

# 7. what was proven, and that nothing is wrong any more
airflow cdc proof crm
airflow cdc diagnose crm

# 8. from now on: apply changes on a schedule, and compare every night. Airflow pauses new DAGs until somebody says so
airflow dags unpause cdc_apply__crm
airflow dags unpause cdc_nightly_consistency__crm
