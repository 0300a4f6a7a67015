"""A small Spark job that loads the classes most jobs need, so that an archive of them can be written at its end."""

import sys

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf, col

UNUSED = ("org.apache.kafka.clients.consumer.KafkaConsumer", "org.mariadb.jdbc.Driver")  # there is no server to ask
RANKED = "SELECT *, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM parsed"


def same(texts: pa.Array) -> pa.Array:
    """A Python function over Arrow."""
    return texts


def session(folder: str) -> SparkSession:
    """A session with an Iceberg catalog in the folder."""
    catalog = "spark.sql.catalog.lake"
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.warehouse": f"file://{folder}/warehouse",
    }
    builder = SparkSession.builder.appName("warm-up")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(folder: str) -> None:
    """Parse, aggregate, rank, join, run Python, and write, merge into and read an Iceberg table."""
    spark = session(folder)
    rows = spark.range(2000).selectExpr("id", "id % 7 AS k", "to_json(named_struct('a', id, 'b', map('x', 'y'))) AS j")
    parsed = rows.selectExpr("*", "from_json(j, 'a bigint, b map<string,string>') AS s", "sha2(j, 256) AS h")
    parsed.withColumn("t", arrow_udf(same, "string")(col("j"))).localCheckpoint().createOrReplaceTempView("parsed")
    spark.sql(f"SELECT k, count(*), max(s.a), max_by(h, r) FROM ({RANKED}) WHERE r < 9 GROUP BY k").collect()
    spark.sql("CREATE NAMESPACE lake.n")
    spark.sql("SELECT id, k, h FROM parsed").writeTo("lake.n.t").tableProperty("format-version", "2").create()
    spark.sql(
        "MERGE INTO lake.n.t AS t USING (SELECT id + 9 AS id, k, h FROM parsed) AS s ON t.id = s.id"
        " WHEN MATCHED AND s.k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.table("lake.n.t").where("id > 5").join(spark.table("parsed"), "id", "left_anti").agg({"id": "max"}).collect()
    for name in UNUSED:
        spark.sql(f"SELECT java_method('java.lang.Class', 'forName', '{name}')").collect()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
