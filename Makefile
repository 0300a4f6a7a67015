# One door to everything. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export CDC_CACHE ?= $(HOME)/.cache/airflow-provider-cdc
# some images set it; every process would compile its nine hundred modules again, for 1 to 4 s each
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## install the project and its pinned dependencies into .venv

# what is never imported need not be compiled: a third of the time
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable
EXTRAS = dev

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[$(EXTRAS)]'
	@touch $@ $(if $(findstring docs,$(EXTRAS)),$(VENV)/.docs)

jars: setup ## fetch the real servers and jars into the cache (by checksum; offline afterwards)
	$(BIN)/python -m stack fetch

demo: setup ## the main job on real servers from nothing (KEEP=1 leaves it running, ROWS=200000, SOURCE=mariadb|postgres, SINK=jdbc)
	$(BIN)/python -m demo $(if $(ROWS),--rows $(ROWS)) $(if $(SOURCE),--source $(SOURCE)) $(if $(SINK),--sink $(SINK)) $(if $(KEEP),--keep)

lint: setup ## ruff, mypy --strict, import contracts, the word list of docs/project/style.md
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m stack.prose check

prose: setup ## count the sentences of each user page: length, passive, "you"
	@$(BIN)/python -m stack.prose

check: setup ## what to run between two edits: lint and types, beside the unit tests nearest to what you changed
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint near

near: setup ## the unit tests nearest to what you changed (a minute of processor time at most)
	@$(BIN)/python -m tests.times near

unit: setup ## fast tests, no servers, in parallel
	$(BIN)/pytest tests/unit tests/contract -n auto

# what subclasses a suite that holds all kinds of one part
SUITES = $(shell grep -rlE 'from airflow_cdc\.testing|from tests\.contract\.control_store' tests --include='test_*.py')

contract: setup ## the contract suites, each kind on its own real server (SYSTEM=mysql: those of one kind)
	$(BIN)/pytest $(SUITES) -m '' $(if $(SYSTEM),-k $(SYSTEM))

integration: setup ## tests on the real servers, as many files at a time as memory allows (three for two cores)
	$(BIN)/pytest tests/integration -n $$($(BIN)/python -m tests.times workers) --dist loadfile

connect: setup ## tests of applying, reading and comparing whose session is on a Spark Connect server (spark.mode: connect), and a recovery by drivers without Java
	$(BIN)/pytest tests/integration/test_spark_connect.py tests/contract/spark/test_connect_server.py -m ''
	CDC_TESTS_ON_SPARK_CONNECT=1 $(BIN)/pytest tests/contract/spark/test_apply_keyless.py tests/contract/spark/test_apply_keyed.py tests/integration/test_verify_in_flight.py tests/integration/test_differences.py

spark-cluster: setup ## the applications on a Spark cluster of processes, whose executors are killed
	$(BIN)/pytest tests/spark_cluster

slow: setup ## what is not in every run: nights, repairs, backfills, MySQL 9.7, MariaDB, further recoveries of each system, every moment of the kill matrix (FILES=tests/integration/flink: those alone)
	$(BIN)/pytest $(or $(FILES),tests/faults tests/integration) -m slow -n $$($(BIN)/python -m tests.times workers) --dist loadfile
	$(if $(FILES),,$(BIN)/pytest tests/adversary -m slow)

e2e: setup ## whole recoveries through a real Airflow, every task killed once; one by Celery workers; the wheel in a clean environment
	$(BIN)/pytest tests/e2e -m 'not slow'

driven: setup ## one stock Airflow driven by its commands alone: odd names, TRUNCATE beside DDL, XA, a step that fails, sixty tables to which something happens
	$(BIN)/pytest tests/e2e/test_driven.py tests/e2e/test_driven_cases.py -m ''

pages-walked: setup ## each page that sets something up, done block by block in a fresh home on a stock Airflow (an hour and a half)
	$(BIN)/pytest tests/e2e/test_pages.py tests/e2e/test_own_pipeline.py tests/e2e/test_canal_page.py tests/e2e/test_jdbc_page.py tests/e2e/test_sink_pages.py tests/e2e/test_hudi_page.py tests/e2e/test_flink_page.py -m ''

celery: setup ## a recovery by Celery workers without a shared disk, on a Spark cluster and an object store; an executor and a worker are killed → build/celery.txt
	$(BIN)/pytest tests/e2e/test_celery.py

airflow-matrix: setup ## the wheel in an environment of each supported Airflow and Python (RECOVERY=1: one recovery each; VERSIONS="3.2.0-py3.11", PYTHONS=/folders/with/pythons) → build/airflow-matrix.json
	$(BIN)/python -m tests.airflow_matrix $(VERSIONS) $(if $(RECOVERY),--recovery)

browser-packages: ## install Debian's Chromium and its driver (needs root)
	@command -v chromedriver >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends chromium chromium-driver; }

browser: setup ## a person's way through the page in a real headless Chromium, from three red pages to MATCH
	$(BIN)/pytest tests/e2e/test_browser.py

site-search: $(VENV)/.docs ## the built site, asked in a real headless Chromium for the errors that people paste: first aid comes first
	$(BIN)/pytest tests/site

pictures: setup ## the pictures of the page in docs/images, each state, in a real headless Chromium (half a minute, no servers)
	$(BIN)/pytest tests/pictures

faults: setup ## the kill matrix: every fault at every moment of a recovery (hours; writes build/faults.json; SOURCE=moments: an ALTER or a failing step at every moment, SOURCE=postgres, canal or jdbc: short forms, build/faults-SOURCE.json)
	$(BIN)/python -m tests.faults $(if $(SOURCE),--source $(SOURCE))

faults-diagnosis: setup ## make every fault on real servers and compare what the diagnosis says (CASES="gtid_purged …", STACK_MYSQL=9.7|mariadb, SOURCE=postgres, CONNECTOR=flink|canal|unfollowed)
	$(BIN)/python -m tests.faults_diagnosis $(CASES) $(if $(SOURCE),--source $(SOURCE)) $(if $(CONNECTOR),--connector $(CONNECTOR))

adversary: setup ## random schemas, DML, DDL, gaps and steps through a real pipeline, every row compared (SEED=1 SEEDS=200 TOGETHER=10 MINUTES=30 WITHOUT=ddl,json)
	$(BIN)/python -m tests.adversary --seed $(or $(SEED),1) --seeds $(or $(SEEDS),1000) --together $(or $(TOGETHER),1) --minutes $(or $(MINUTES),30) --without "$(WITHOUT)" $(if $(KNOWN),--known)

systems: setup ## each system's own failure, recovered under writes, every row compared → build/systems.json (SYSTEMS=postgres)
	$(BIN)/python -m tests.systems $(SYSTEMS)

catalogs: setup ## a recovery into each kind of catalog, every row compared → build/catalogs.json (CATALOGS="embedded jdbc hive rest guarded rest-cluster")
	$(BIN)/python -m tests.catalogs $(CATALOGS)

fuzz: setup ## every parser of foreign bytes and texts on mutated samples of real ones → build/fuzz.json (MINUTES=30 SEED=1 ONLY=address)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

breaks: setup ## connections, broker, object store, disk, clocks and processes that break under each application → build/breaks.json (ONLY=disk)
	$(BIN)/pytest tests/breaks -m '' $(if $(ONLY),-k "$(ONLY)")

soak-diagnosis: setup ## half an hour of a healthy pipeline under load: no false alarm (MINUTES=30)
	$(BIN)/python -m tests.faults_diagnosis.soak --minutes $(or $(MINUTES),30)

test: EXTRAS = dev,docs
test: setup $(VENV)/.docs ## everything that .ci/run runs (tests/times/parts.py names its parts) → build/test-times.json
	$(BIN)/python -m tests.times run

test-times: ## what the last `make test` took: by part, by file, and by what was waited for
	@$(BIN)/python -m tests.times

load: setup ## recoveries while the source takes thousands of changes a second, and over a backlog of 5 M events → build/load.json
	$(BIN)/python -m tests.load

mutants: setup ## change the code and count what the fast tests notice → build/mutants (ROOM="core flows", N=100 SEED=1, DIRECTED=1: the listed rules taken out, BODIES=1: functions emptied, JOBS=1; ROOM=touched N=100: what differs from main)
	$(BIN)/python -m tests.mutants $(if $(ROOM),--room "$(ROOM)") $(if $(N),--n $(N)) $(if $(SEED),--seed $(SEED)) $(if $(DIRECTED),--directed) $(if $(BODIES),--bodies) $(if $(JOBS),--jobs $(JOBS))

recordings: setup ## what real databases say to the tests of their clients, recorded anew → tests/contract/recorded/tapes (FILES=tests/contract/recorded/test_mysql_log.py)
	$(BIN)/python -m tests.contract.recorded $(FILES)

reach: setup ## what of public connector configurations is diagnosed and whose rows are followed (FILE= names others) → build/reach.json
	$(BIN)/python -m tests.reach

bench: setup ## how long the commands, the DAG parse and the page take, how late an alarm is, what a record costs to decode, what a batch costs to apply, what expectations cost, what a table of 2,000 costs (TABLES=20,200), what a driver holds (EVENTS=20000,200000), what large tables cost (ROWS=200000 WIDE=20000), what a recovery costs its source, what a cluster makes of a large table, what a small pipeline costs, what a whole recovery takes against Debezium's own (WHOLE=200000); some with ONLY=large,whole, the rest of a run that was broken off with RESUME=1 → build/bench/*.json
	$(BIN)/python -m tests.bench $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(EVENTS),--events $(EVENTS)) $(if $(TABLES),--tables $(TABLES)) $(if $(ROWS),--rows $(ROWS)) $(if $(WIDE),--wide $(WIDE)) $(if $(WHOLE),--whole $(WHOLE))

bench-hudi: setup ## what readers of a Hudi table see while it is published, what kills leave, who wins a contest → build/bench/hudi_publish.json
	$(BIN)/python -m tests.bench.hudi_publish

docs: $(VENV)/.docs ## build the documentation into build/site; a warning is an error
	$(BIN)/mkdocs build --strict --clean

# before a run, not in it: what is installed is gone for a moment
$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) '.[docs]'
	@touch $@

reference: setup ## write the configuration reference and the schema of pipelines.yaml from the code
	$(BIN)/python -m airflow_cdc.config.reference > docs/reference/configuration.md
	$(BIN)/python -m airflow_cdc.config.schema > docs/reference/pipelines.schema.json

pages: reference supported ## write all that is made from files, from the code and from what runs left: parts of README and of the pages, the reference, the supported versions
	$(BIN)/python -m stack.pages

supported: setup ## write the page of supported versions from what runs left in docs/evidence
	$(BIN)/python -m stack.supported > docs/supported-versions.md

wheel: setup ## build the wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir $(or $(DIST),build/dist) .

hashes: setup ## ask pip for the checksum of each pinned file, on each Python and machine → constraints-hashed.txt (minutes)
	$(BIN)/python -m stack hashes

release: setup ## the wheel, built twice to the same bytes by the pinned tools, its checksum, its bill of materials and what it needs by checksum → build/dist
	rm -rf build/dist build/again
	$(MAKE) wheel
	$(MAKE) wheel DIST=build/again
	diff -r build/dist build/again
	$(BIN)/python -m stack sbom > build/dist/sbom.cdx.json
	$(BIN)/python -m stack requirements > build/dist/requirements.txt
	cd build/dist && sha256sum * > SHA256SUMS

clean: ## remove what builds and runs left in build/
	rm -rf build dist

.PHONY: $(shell grep -oE "^[a-z0-9-]+:" $(firstword $(MAKEFILE_LIST)) | tr -d :)
