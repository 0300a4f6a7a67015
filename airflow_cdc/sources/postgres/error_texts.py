"""The errors with which PostgreSQL refuses a connector, as connectors report them.

A server whose `lc_messages` is not English sends the same errors in its own language: the ones that decide are known in
German, French, Spanish, Chinese and Japanese, too.
"""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText

_SLOTS: Final = "SELECT slot_name, plugin, database, active, active_pid, wal_status FROM pg_replication_slots"
_READERS: Final = (
    "SELECT pid, application_name, client_addr, backend_start, state FROM pg_stat_replication"
    " JOIN pg_replication_slots ON active_pid = pid (is that address the connector's own, from before?)"
)
_RIGHT: Final = "the connector's role lacks a right"
_OWN: Final = "the connector's own earlier connection still holds it, as after a failover or a killed worker"
_GONE: Final = "the server gave up the log that the slot needed"

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "SLOT_ACTIVE_ELSEWHERE",
        11,
        r"(slot|スロット|槽)[^\n]{0,90}(is active|aktiv|actif|activo|使用中|活动|活跃)[^\n]{0,20}|"
        r"slot[^\n]{0,90}\bPID \d+",
        "another reader uses the slot: two connectors with one slot.name take each other's changes",
        otherwise=(("CONNECTOR_FAILED_TRANSIENT", f"{_OWN}: a restart in some minutes cures it"),),
        ask=_READERS,
        says='replication slot "shop" is active for PID 4711',
    ),
    KnownText(
        "MAX_WAL_SENDERS",
        12,
        r"number of requested standby connections exceeds \"?max_wal_senders|all replication slots are in use|"
        r"replication slots can only be used if \"?max_replication_slots|alle Replikations-Slots sind in Benutzung",
        "the server has no WAL sender, or no slot, to spare",
        says="all replication slots are in use · exceeds max_wal_senders",
    ),
    KnownText(
        "WAL_LEVEL",
        13,
        r"logical decoding (on standby )?requires \"?wal_level\"? >= \"?logical|"
        r"wal_level property must be ['\"]logical|replication slots can only be used if \"?wal_level",
        "the server's log does not hold what logical decoding needs",
        says="logical decoding requires wal_level >= logical",
    ),
    KnownText(
        "SLOT_INVALIDATED",
        14,
        r"can no longer (access|get changes from) replication slot|slot has been invalidated|"
        r"invalidating (obsolete )?(replication )?slot|cannot read from logical replication slot|"
        r"(requested|required) WAL segment|WAL required by replication slot|logical replication slot that must be invalidated|"
        r"\b[0-9A-F]{24}\b[^\n]{0,40}(already been removed|entfernt|supprimé|eliminado|削除|删除)|"
        r"exceeds max_slot_wal_keep_size|never previously reserved WAL",
        _GONE,
        says="requested WAL segment … has already been removed · can no longer get changes from replication slot",
    ),
    KnownText(
        "SLOT_INVALIDATED",
        15,
        r"Unable to obtain valid replication slot|Cannot obtain valid replication slot|"
        r"Value <?[^\n]{0,40} in the pg_replication_slots table for slot",
        _GONE,
        otherwise=(
            (
                "CONNECTOR_FAILED_TRANSIENT",
                "a transaction that has been open for long keeps the new slot from starting: end it, and restart",
            ),
        ),
        ask="SELECT wal_status FROM pg_replication_slots (lost: invalid); SELECT pid, xact_start, state, query FROM"
        " pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start (which is old?)",
        says="Unable to obtain valid replication slot",
    ),
    KnownText(
        "SLOT_MISSING",
        16,
        r"replication slot \"[^\"]*\" does not exist|Replikations-Slot [^\n]{0,90} existiert nicht|"
        r"slot de réplication [^\n]{0,90} n'existe pas|no existe el slot de replicación|"
        r"スロット[^\n]{0,90}存在しません|复制槽[^\n]{0,90}不存在|replication slot was not found",
        "the connector's slot is not on the server any more",
        says='replication slot "shop" does not exist',
    ),
    KnownText(
        "LSN_BEFORE_SLOT",
        17,
        r"cannot advance replication slot to \S+, minimum is|Cannot seek to the last known offset|"
        r"offset is before replication slot's confirmed",
        "a replication slot only moves forward: what was asked for lies before it and is gone",
        says="cannot advance replication slot to 0/8458588, minimum is 0/84586E8",
    ),
    KnownText(
        "SLOT_MISSING",
        18,
        r"trying to read (change stream|redo log|WAL) starting at PostgresOffsetContext.{0,8000}?no longer available",
        "the slot is missing, or no longer has the stored place: which of them only the server can say",
        otherwise=(
            ("SLOT_INVALIDATED", _GONE),
            ("LSN_BEHIND_RESTART", "the slot is there, and the log from the stored place on was removed"),
        ),
        ask="SELECT slot_name, wal_status, restart_lsn, confirmed_flush_lsn FROM pg_replication_slots",
        says="trying to read change stream starting at PostgresOffsetContext …, but this is no longer available",
    ),
    KnownText(
        "PUBLICATION_MISSING",
        19,
        r"publication \"[^\"]*\" does not exist|Publication autocreation is disabled|"
        r"Publikation [^\n]{0,90} existiert nicht|publication « [^\n]{0,90} n'existe pas|no existe la publicación|"
        r"パブリケーション[^\n]{0,90}存在しません|发布[^\n]{0,90}不存在",
        "the connector's publication is not there: changes are not sent, and some may have been skipped",
        says='publication "shop" does not exist',
    ),
    KnownText(
        "PUBLICATION_MISSING",
        29,
        r"not present among LSNs seen in the location phase",
        "after its publication was missing for a while the connector cannot find its place; going on skips rows",
    ),
    KnownText(
        "REPLICA_IDENTITY",
        21,
        r"does not have a replica identity and publishes (updates|deletes)|"
        r"(WHERE expression|column list)[^\n]{0,40} (is not part of|does not cover) the replica identity",
        "the server refuses the application's own UPDATE or DELETE: the table has no replica identity",
        says="does not have a replica identity and publishes updates",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        32,
        r"must be superuser to create FOR ALL TABLES publication|must be (the )?owner of table|"
        r"permission denied for database [^\n]{0,200}",
        "the role may not create the publication: create it yourself for the captured tables, name it in publication.name, and"
        " set publication.autocreate.mode=disabled",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        33,
        r"permission denied (to (start WAL sender|use replication slots)|for (table|schema|relation|publication|function))|"
        r"must be superuser or replication role|must be (a )?superuser|must have replication privilege|"
        r"roles LOGIN and REPLICATION are not assigned|keine Berechtigung|droit refusé|permiso denegado",
        _RIGHT,
    ),
    KnownText(
        "SOURCE_MISCONFIGURED",
        34,
        r"slot \"[^\"]*\" was not created in this database|physical replication slot for logical decoding|"
        r"contains invalid character|(CREATE_REPLICATION_SLOT|Creation of replication slot failed).{0,6000}syntax error|"
        r"unrecognized pgoutput option|only supports protocol \d+ or higher|could not access file \"(decoderbufs|wal2json)",
        "the slot, its name or its output plugin is not what the connector needs: another database, another plugin, or none",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        35,
        r"logical decoding cannot be used while in recovery|being synchronized from the primary|Cannot connect to a version of Postgres lower",
        "this server cannot decode for the connector: a standby can from PostgreSQL 16 on; connect it to the primary",
    ),
    KnownText(
        "SLOT_ACTIVE_ELSEWHERE",
        36,
        r"replication slot \"[^\"]*\" already exists|use a distinct replication slot name for each|"
        r"(Slot|スロット|槽)[^\n]{0,90}(existiert bereits|existe déjà|ya existe|すでに存在|已存在|已经存在)",
        "the slot's name is used twice: another connector on this server has it, so give each one a slot of its own",
        otherwise=(
            ("SOURCE_MISCONFIGURED", "a slot of that name belongs to another database, or has another output plugin"),
        ),
        ask=_SLOTS,
        says='replication slot "shop" already exists',
    ),
    KnownText(
        "CONNECTOR_FAILED",
        136,
        r"password authentication failed|no pg_hba\.conf entry|pg_hba\.conf rejects|role \"[^\"]*\" does not exist|"
        r"database \"[^\"]*\" does not exist|is not permitted to log in|authentication type \d+ is not supported|"
        r"requested SCRAM-based authentication|Passwort-Authentifizierung|authentification par mot de passe|"
        r"autentificación password falló|パスワード認証に失敗|Password 认证失败|密码认证失败|"
        r"\bFATAL: [^\n]{0,90}(does not exist|existiert nicht|n'existe pas)",
        LOGIN_REFUSED,
    ),
    KnownText(
        "CONNECTOR_FAILED",
        151,
        r"No table filters found for filtered publication|Unable to \w+ filtered publication|Creation of publication failed|"
        r"cannot add relation \"[^\"]*\" to publication",
        "the connector cannot create its publication: create it yourself for the captured tables",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        159,
        r"Cannot enlarge string buffer|invalid memory alloc request size|missing chunk number \d+ for toast|"
        r"Creation of replication slot failed|could not map filenode|"
        r"Failed to start replication stream at LSN[^\n]{0,60}(?!.{0,4000}Caused by)",
        "the server cannot decode or send what the connector asks for: its own log says why",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        193,
        r"Database connection failed when (reading from|writing to|starting) copy|"
        r"terminating (connection|walsender process|logical replication)|the database system is |"
        r"remaining connection slots are reserved|too many clients|Could not create (PostgreSQL|PG) connection|"
        r"\(Error: (57P0\d|08\w{3}|53\w{3})\)|server closed the connection|connection has been closed|"
        r"canceling statement due to (conflict|statement timeout|lock timeout)|could not receive data from client|"
        r"An I/O error occurred while sending to the backend|The connection attempt failed|"
        r"Connection to [^\n]{0,200} refused|Too many errors connecting to server|"
        r"Abbruch der Verbindung|Verbindung wird abgebrochen|arrêt des connexions|terminando la conexión|"
        r"管理者コマンドにより接続を終了|由于管理员命令中断",
        CUT,
    ),
)
