"""A small Spark job that loads the classes most jobs need, so that an archive of them can be written at its end."""

import sys

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf, col


def same(texts: pa.Array) -> pa.Array:
    """A Python function over Arrow."""
    return texts


def main(folder: str) -> None:
    """Parse, aggregate, rank, join, run Python, write and read Parquet."""
    spark = SparkSession.builder.appName("warm-up").getOrCreate()
    rows = spark.range(2000).selectExpr("id", "id % 7 AS k", "to_json(named_struct('a', id, 'b', map('x', 'y'))) AS j")
    parsed = rows.selectExpr("*", "from_json(j, 'a bigint, b map<string,string>') AS s", "sha2(j, 256) AS h")
    parsed.withColumn("t", arrow_udf(same, "string")(col("j"))).localCheckpoint().createOrReplaceTempView("parsed")
    ranked = "SELECT *, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS r FROM parsed"
    spark.sql(f"SELECT k, count(*), max(s.a), max_by(h, r) FROM ({ranked}) WHERE r < 9 GROUP BY k").collect()
    spark.sql("SELECT * FROM parsed p WHERE EXISTS (SELECT 1 FROM parsed q WHERE q.id = p.id + 1)").write.parquet(
        f"{folder}/parquet"
    )
    spark.read.parquet(f"{folder}/parquet").where("id > 5").agg({"id": "max"}).collect()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
