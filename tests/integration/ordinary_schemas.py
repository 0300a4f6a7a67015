"""Schemas as people have them: tables of the Sakila sample database, and what Django's migrations make on MySQL.

Column by column as they are published, with rows that hold NULL in every nullable column.
"""

from __future__ import annotations

from collections.abc import Mapping

SAKILA: Mapping[str, str] = {
    "actor": "CREATE TABLE actor (actor_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, first_name VARCHAR(45) NOT NULL,"
    " last_name VARCHAR(45) NOT NULL,"
    " last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
    " PRIMARY KEY (actor_id), KEY idx_actor_last_name (last_name))",
    "address": "CREATE TABLE address (address_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, address VARCHAR(50) NOT NULL,"
    " address2 VARCHAR(50) DEFAULT NULL, district VARCHAR(20) NOT NULL, city_id SMALLINT UNSIGNED NOT NULL,"
    " postal_code VARCHAR(10) DEFAULT NULL, phone VARCHAR(20) NOT NULL, location GEOMETRY NOT NULL SRID 0,"
    " last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
    " PRIMARY KEY (address_id), SPATIAL KEY idx_location (location))",
    "customer": "CREATE TABLE customer (customer_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT,"
    " store_id TINYINT UNSIGNED NOT NULL, first_name VARCHAR(45) NOT NULL, last_name VARCHAR(45) NOT NULL,"
    " email VARCHAR(50) DEFAULT NULL, address_id SMALLINT UNSIGNED NOT NULL, active BOOLEAN NOT NULL DEFAULT TRUE,"
    " create_date DATETIME NOT NULL,"
    " last_update TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (customer_id))",
    "film": "CREATE TABLE film (film_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, title VARCHAR(255) NOT NULL,"
    " description TEXT DEFAULT NULL, release_year YEAR DEFAULT NULL, language_id TINYINT UNSIGNED NOT NULL,"
    " original_language_id TINYINT UNSIGNED DEFAULT NULL, rental_duration TINYINT UNSIGNED NOT NULL DEFAULT 3,"
    " rental_rate DECIMAL(4,2) NOT NULL DEFAULT 4.99, length SMALLINT UNSIGNED DEFAULT NULL,"
    " replacement_cost DECIMAL(5,2) NOT NULL DEFAULT 19.99,"
    " rating ENUM('G','PG','PG-13','R','NC-17') DEFAULT 'G',"
    " special_features SET('Trailers','Commentaries','Deleted Scenes','Behind the Scenes') DEFAULT NULL,"
    " last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (film_id))",
    "film_actor": "CREATE TABLE film_actor (actor_id SMALLINT UNSIGNED NOT NULL, film_id SMALLINT UNSIGNED NOT NULL,"
    " last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
    " PRIMARY KEY (actor_id, film_id))",
    "payment": "CREATE TABLE payment (payment_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT,"
    " customer_id SMALLINT UNSIGNED NOT NULL, staff_id TINYINT UNSIGNED NOT NULL, rental_id INT DEFAULT NULL,"
    " amount DECIMAL(5,2) NOT NULL, payment_date DATETIME NOT NULL,"
    " last_update TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (payment_id))",
    "staff": "CREATE TABLE staff (staff_id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, first_name VARCHAR(45) NOT NULL,"
    " last_name VARCHAR(45) NOT NULL, picture BLOB DEFAULT NULL, email VARCHAR(50) DEFAULT NULL,"
    " active BOOLEAN NOT NULL DEFAULT TRUE, username VARCHAR(16) NOT NULL,"
    " password VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,"
    " last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (staff_id))",
}

DJANGO: Mapping[str, str] = {
    "auth_user": "CREATE TABLE auth_user (id INTEGER AUTO_INCREMENT NOT NULL PRIMARY KEY, password VARCHAR(128) NOT NULL,"
    " last_login DATETIME(6) NULL, is_superuser BOOL NOT NULL, username VARCHAR(150) NOT NULL UNIQUE,"
    " email VARCHAR(254) NOT NULL, is_active BOOL NOT NULL, date_joined DATETIME(6) NOT NULL)",
    "django_admin_log": "CREATE TABLE django_admin_log (id INTEGER AUTO_INCREMENT NOT NULL PRIMARY KEY,"
    " action_time DATETIME(6) NOT NULL, object_id LONGTEXT NULL, object_repr VARCHAR(200) NOT NULL,"
    " action_flag SMALLINT UNSIGNED NOT NULL, change_message LONGTEXT NOT NULL, user_id INTEGER NOT NULL)",
    "django_session": "CREATE TABLE django_session (session_key VARCHAR(40) NOT NULL PRIMARY KEY,"
    " session_data LONGTEXT NOT NULL, expire_date DATETIME(6) NOT NULL)",
    # null=True with db_default, of Django 5
    "shop_order": "CREATE TABLE shop_order (id BIGINT AUTO_INCREMENT NOT NULL PRIMARY KEY, uuid CHAR(32) NOT NULL,"
    " status VARCHAR(20) DEFAULT 'new' NULL, priority INTEGER DEFAULT 7 NULL, placed DATETIME(6) DEFAULT (NOW(6)) NULL,"
    " total NUMERIC(12, 2) DEFAULT '0' NULL, extra JSON NULL, note VARCHAR(20) DEFAULT 'NULL' NULL,"
    " seen DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) NULL)",
}

ROWS: tuple[str, ...] = (
    "INSERT INTO actor (first_name, last_name) VALUES ('PENELOPE', 'GUINESS'), ('Zoë', 'O''Neil')",
    "INSERT INTO address (address, district, city_id, phone, location) VALUES ('47 MySakila Drive', '', 300, '', POINT(1, 2))",
    "INSERT INTO customer (store_id, first_name, last_name, address_id, create_date, last_update) VALUES (1, 'MARY', 'SMITH', 5, '2006-02-14 22:04:36', NULL)",
    "INSERT INTO film (title, language_id, rating) VALUES ('ACADEMY DINOSAUR', 1, NULL), ('ACE GOLDFINGER', 1, DEFAULT)",
    "INSERT INTO film (title, release_year, language_id, rating, special_features) VALUES ('ADAPTATION HOLES', 2006, 1, 'NC-17', 'Trailers,Deleted Scenes')",
    "INSERT INTO film_actor (actor_id, film_id) VALUES (1, 1), (1, 2)",
    "INSERT INTO payment (customer_id, staff_id, amount, payment_date, last_update) VALUES (1, 1, 2.99, '2005-05-25 11:30:37', NULL)",
    "INSERT INTO staff (first_name, last_name, username) VALUES ('Mike', 'Hillyer', 'Mike')",
    "INSERT INTO auth_user (password, is_superuser, username, email, is_active, date_joined) VALUES ('!', 1, 'admin', '', 1, '2026-01-01 00:00:00.123456')",
    "INSERT INTO django_admin_log (action_time, object_repr, action_flag, change_message, user_id) VALUES ('2026-01-01', 'x', 1, '[]', 1)",
    "INSERT INTO django_session VALUES ('k', 'data', '2026-01-15')",
    "INSERT INTO shop_order (uuid, status, priority, placed, total, note, seen) VALUES ('a', NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO shop_order (uuid) VALUES ('b')",
)
CHANGES: tuple[str, ...] = (
    "UPDATE film SET rating = NULL WHERE title = 'ADAPTATION HOLES'",
    "UPDATE shop_order SET status = NULL WHERE uuid = 'b'",
    "UPDATE payment SET amount = 3",
    "DELETE FROM film_actor WHERE film_id = 2",
)
