#!/bin/sh
# From a database and a connector to a proven copy. Set before: MYSQL (host:port), CONNECT (http://host:port), KAFKA
# (host:port), CDC_MYSQL_PASSWORD (of the user cdc) and DEBEZIUM_PASSWORD (of the user debezium).
set -eu

# 1. a Debezium connector, if you have none; the first copy is made by the recovery, so it need not snapshot
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
  "database.include.list": "crm",
  "table.include.list": "crm.people,crm.notes",
  "snapshot.mode": "no_data",
  "schema.history.internal.kafka.bootstrap.servers": "$KAFKA",
  "schema.history.internal.kafka.topic": "crm.schema-history",
  "heartbeat.interval.ms": "5000",
  "enable.time.adjuster": "false"
}
JSON

# 2. the pipeline and its connections; every answer may also be given at the prompt
airflow cdc init --pipeline crm --mysql "$MYSQL" --mysql-user cdc --tables crm.people,crm.notes \
  --connector crm --connect "$CONNECT" --kafka "$KAFKA"

# 3. does everything fit?
airflow cdc doctor crm

# 4. TABLE_ADDED: declared, nothing copied yet. A problem is exit status 1
airflow cdc diagnose crm || [ $? -eq 1 ]

# 5. the first copy, proven row by row before anybody can read it
airflow cdc recover crm --wait --yes

# 6. what was proven, and that nothing is wrong any more
airflow cdc verify crm
airflow cdc diagnose crm
