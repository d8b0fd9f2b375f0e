# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Users, and who is signed in. The database has users, the key that signs cookies, and the log of
changes, in tables of the pages' own."""
import datetime
import hashlib
import hmac
import secrets
import threading

import flask
import flask.sessions
import flask_wtf.csrf

from store import Problem

TABLES = (
    "CREATE TABLE IF NOT EXISTS web_key (value text NOT NULL)",
    # The salt is another one for each password, so it also names the session.
    "CREATE TABLE IF NOT EXISTS web_user (name text PRIMARY KEY, salt text NOT NULL UNIQUE, "
    "password text NOT NULL, writes integer NOT NULL, token text)",
    "CREATE TABLE IF NOT EXISTS web_change (id {serial}, at bigint NOT NULL, who text NOT NULL, "
    "job text NOT NULL, verb text NOT NULL, detail text NOT NULL, error text)")
HOURS = 12          # after that one has to sign in again
one_at_a_time = threading.Lock()    # each takes 16 MiB, and guessing shall be slow


def hashed(password, salt):
    with one_at_a_time:
        return hashlib.scrypt(password.encode(errors="replace"), salt=salt.encode(), n=2 ** 14, r=8,
                              p=1).hex()


def add(store, name, password, writes):
    """Add a user, or give one a new password, which ends the user's sessions."""
    salt = secrets.token_hex(16)
    with store.open(write=True) as db:
        for table in TABLES:
            db(table.format(serial=store.serial))
        if not db("SELECT value FROM web_key"):
            db("INSERT INTO web_key VALUES (%s)", secrets.token_hex(32))
        db("DELETE FROM web_user WHERE name = %s", name)
        db("INSERT INTO web_user VALUES (%s, %s, %s, %s, NULL)", name, salt,
           hashed(password, salt), int(writes))


def digest(token):
    """A token is long and random: a quick hash is enough."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def new_token(store, name):
    """Print a token for the API. It replaces the user's last one, and ends with the password."""
    token = secrets.token_urlsafe(32)
    with store.open(write=True) as db:
        if not db("UPDATE web_user SET token = %s WHERE name = %s RETURNING name", digest(token),
                  name):
            raise Problem(404, f"there is no user '{name}'")
    print(token)


def remove(store, name):
    with store.open(write=True) as db:
        if not db("DELETE FROM web_user WHERE name = %s RETURNING name", name):
            raise Problem(404, f"there is no user '{name}'")


def sign_in(name, password):
    store = flask.current_app.config["STORE"]
    with store.open() as db:
        found = db("SELECT salt, password FROM web_user WHERE name = CAST(%s AS TEXT)",
                   store.text(name))
    # Takes as long for a name that there is not.
    salt, wanted = found[0] if found else ("", "")
    if not hmac.compare_digest(hashed(password, salt), wanted):
        return False
    flask.session.clear()
    flask.session["salt"] = salt
    return True


class Sessions(flask.sessions.SecureCookieSessionInterface):
    """Signed with a key that the database has, which may be away when the program starts."""

    def open_session(self, app, request):
        try:
            if not app.secret_key:
                with app.config["STORE"].open() as db:
                    app.secret_key = db("SELECT value FROM web_key")[0][0]
        except Problem as problem:
            flask.g.problem = problem
        return super().open_session(app, request)


def check_user():
    """All but the page to sign in is for users. The API takes tokens only, so that no other site
    can use it through a browser; the pages take cookies only."""
    if "problem" in flask.g:
        raise flask.g.problem
    if flask.request.endpoint in ("pages.sign_in_page", "static"):
        return None
    is_api = flask.request.path.startswith("/api/")
    kind, _, token = flask.request.headers.get("Authorization", "").partition(" ")
    column, value = "salt", flask.session.get("salt", "")
    if is_api:
        column, value = "token", digest(token) if kind == "Bearer" else ""
    with flask.current_app.config["STORE"].open() as db:
        found = db(f"SELECT name, writes FROM web_user WHERE {column} = %s", value)
    if not found and is_api:
        raise Problem(401, "This needs a token: Authorization: Bearer TOKEN")
    if not found:
        return flask.redirect("/sign-in", 303)
    flask.g.user = dict(found[0])
    return None


def check_writer():
    if not flask.g.user["writes"]:
        raise Problem(403, "You may read only.")


def protect(app):
    app.config.update(SESSION_COOKIE_SAMESITE="Strict", SESSION_COOKIE_NAME="hwtimer_jobs",
                      PERMANENT_SESSION_LIFETIME=datetime.timedelta(hours=HOURS),
                      WTF_CSRF_TIME_LIMIT=None)
    app.session_interface = Sessions()
    app.before_request(check_user)
    return flask_wtf.csrf.CSRFProtect(app)
