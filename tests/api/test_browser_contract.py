"""Every row of the contract about the browser and the display (contract.py has them) has a test that asserts what it does:
ROWS and TABLES name it, most of them elsewhere, and those that were nowhere are here. A row that is not named fails."""

import json
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

import contract
import desktop
from acting import done, failed, page, site  # noqa: F401
from desktop import BROWSER_NEEDED, tabs, tester  # noqa: F401
from harness import ANSWER_SECONDS, START_SECONDS, Calls, clean_environment, eventually, program, request

BROWSER, NETWORK, DISPLAY = Calls("/v1/browser"), Calls("/v1/browser/network"), Calls("/v1/display")
HERE = "browser_contract"

# Of each operation: a test, and the rows that it asserts.
ROWS = """
POST /v1/browser/actions
    desktop.test_the_mouse: MOVE_TO MOVE_TO.x MOVE_TO.y MOVE_REL MOVE_REL.x_offset MOVE_REL.y_offset CLICK CLICK.x CLICK.y
    desktop.test_the_mouse: RIGHT_CLICK RIGHT_CLICK.x RIGHT_CLICK.y DOUBLE_CLICK SCROLL SCROLL.dx SCROLL.dy
    .test_every_button_of_the_mouse: CLICK.button CLICK.button=left CLICK.button=right CLICK.button=middle
    .test_every_button_of_the_mouse: MOUSE_DOWN MOUSE_DOWN.button MOUSE_DOWN.button=left MOUSE_DOWN.button=right MOUSE_DOWN.button=middle
    .test_every_button_of_the_mouse: MOUSE_UP MOUSE_UP.button MOUSE_UP.button=left MOUSE_UP.button=right MOUSE_UP.button=middle
    .test_as_many_clicks_as_were_asked_for: CLICK.num_clicks CLICK.num_clicks=1 CLICK.num_clicks=2 CLICK.num_clicks=3
    .test_as_many_clicks_as_were_asked_for: DOUBLE_CLICK.x DOUBLE_CLICK.y
    .test_what_an_action_does_without_its_fields: CLICK.button~left CLICK.num_clicks~1 MOUSE_DOWN.button~left MOUSE_UP.button~left
    .test_what_an_action_does_without_its_fields: SCROLL.dx~0 SCROLL.dy~0 TYPING.use_clipboard~true
    desktop.test_dragging: DRAG_TO DRAG_TO.x DRAG_TO.y DRAG_REL DRAG_REL.x_offset DRAG_REL.y_offset
    desktop.test_any_text_can_be_typed_into_a_terminal: TYPING TYPING.text TYPING.use_clipboard
    desktop.test_keys_by_their_names: PRESS PRESS.key KEY_DOWN KEY_DOWN.key KEY_UP KEY_UP.key HOTKEY HOTKEY.keys
    desktop.test_waiting: WAIT WAIT.duration >data.status >data.action_performed >status >action_performed
GET /v1/browser/captcha/detect
    captcha.test_each_rule:
POST /v1/browser/captcha/wait
    captcha.test_nobody_solves_it: timeout >data.resolved
    captcha.test_somebody_does: timeout~60
    .test_a_captcha_is_looked_for_every_two_seconds: poll_interval poll_interval~2
POST /v1/browser/config
    desktop.test_the_screen_can_have_every_size_of_the_contract: resolution resolution.width resolution.height
GET /v1/browser/cookies
    cookies.test_for_another_domain: urls
POST /v1/browser/cookies
    cookies.test_what_is_set_is_sent: cookies
DELETE /v1/browser/cookies
    cookies.test_clearing:
GET /v1/browser/info
    browser.test_info: >data.user_agent >data.cdp_url >data.vnc_url >data.viewport >data.viewport.width >data.viewport.height
    browser.test_info: >data.page_viewport >data.page_viewport.width >data.page_viewport.height
    .test_there_is_no_page_of_devtools: >data.cdp_ui_url
POST /v1/browser/network/export_har
    network_har.test_a_file: save_path
POST /v1/browser/network/headers
    network_routes.test_headers_for_all: headers
GET /v1/browser/network/requests
    network_requests.test_filter_and_limit: filter limit
    .test_the_last_hundred_requests: limit~100
POST /v1/browser/network/route
    network_routes.test_a_response: url_pattern response response.status response.headers response.body response.content_type
    network_routes.test_the_defaults_of_a_response: response.status~200 response.body~ response.content_type~text/plain abort~false
    network_routes.test_abort: abort
DELETE /v1/browser/network/route
    network_routes.test_a_response: url_pattern
POST /v1/browser/network/scoped_headers
    network_routes.test_scoped_headers: origin headers
POST /v1/browser/page/back
    page_navigate.test_history:
POST /v1/browser/page/check
    page_fill.test_checkboxes: selector
POST /v1/browser/page/click
    page_click.test_a_click_is_real_input: selector
    page_click.test_by_coordinates: x y
    page_click.test_buttons_and_counts: button click_count
    .test_a_click_by_index_is_one_of_the_left_button: index button~left click_count~1
GET /v1/browser/page/console
    page_console.test_it_is_kept_over_pages_and_cleared: clear clear~false
POST /v1/browser/page/console/export
    page_console.test_export: save_path clear clear~false
GET /v1/browser/page/elements
    .test_a_click_by_index_is_one_of_the_left_button:
POST /v1/browser/page/evaluate
    page_evaluate.test_values: expression
POST /v1/browser/page/fill
    page_fill.test_text: selector text
    sdk_browser.browser_page_fill: index
POST /v1/browser/page/fill_form
    page_fill.test_a_form: items
POST /v1/browser/page/find_text
    page_find.test_every_place: keyword
POST /v1/browser/page/forward
    page_navigate.test_history:
POST /v1/browser/page/hot_key
    page_fill.test_combinations: keys
POST /v1/browser/page/hover
    page_click.test_hovering: selector x y
GET /v1/browser/page/html
    page_navigate.test_html_and_text: outer outer~false
GET /v1/browser/page/markdown
    page_markdown.test_a_page:
POST /v1/browser/page/navigate
    page_navigate.test_navigate: url
    page_navigate.test_an_endless_load: wait_until wait_until=load wait_until=domcontentloaded wait_until=commit timeout
    page_navigate.test_an_idle_network: wait_until=networkidle
    page_navigate.test_a_document_before_its_pictures: wait_until~load
    .test_what_never_comes_is_waited_for_as_long_as_it_says: timeout~30
POST /v1/browser/page/press_key
    page_fill.test_keys: key
POST /v1/browser/page/record
    page_record.test_a_recording_is_what_the_page_has_shown: save_path duration action~once fps~15
    page_record.test_from_start_to_stop: action action=start action=stop fps
    page_record.test_what_passes_in_a_pause_is_left_out: action=pause action=resume
    page_record.test_another_caller_stops_and_pauses_once: action=once
    page_record.test_one_at_a_time: action=status
    page_record.test_quality: quality
    .test_the_document_says_the_same: quality~80 duration~10
POST /v1/browser/page/reload
    sdk_browser.browser_page_reload:
GET /v1/browser/page/screenshot
    page_screenshot.test_the_whole_page: full_page full_page~false
    page_screenshot.test_formats: format
    page_screenshot.test_what_is_in_view: format~png
    page_screenshot.test_quality: quality
POST /v1/browser/page/scroll
    .test_scrolling: direction direction~down amount amount~300
POST /v1/browser/page/scroll_to
    .test_scrolling_to_a_place: x x~0 y y~0
POST /v1/browser/page/scroll_to_element
    .test_scrolling_to_an_element: selector
POST /v1/browser/page/select_option
    page_fill.test_an_option: selector value label index
GET /v1/browser/page/text
    page_navigate.test_html_and_text:
POST /v1/browser/page/type
    page_fill.test_typing: text delay~0
    page_fill.test_typing_slowly: delay
POST /v1/browser/page/uncheck
    page_fill.test_checkboxes: selector
POST /v1/browser/page/upload_file
    page_fill.test_files_that_arrive: selector files
POST /v1/browser/page/wait
    page_wait.test_an_element: type type=selector selector
    page_wait.test_states_of_an_element: state
    page_wait.test_the_document: type=load
    page_wait.test_an_address: type=url url
    page_wait.test_an_idle_network: type=network_idle
    page_wait.test_a_download: type=download save_path
    page_wait.test_a_function: type=function expression polling
    page_wait.test_a_response: type=response url_pattern
    page_wait.test_a_request: type=request
    page_wait.test_time: type=timeout timeout
    .test_what_never_comes_is_waited_for_as_long_as_it_says: timeout~30
GET /v1/browser/proxy.pac
    browser.test_a_proxy:
POST /v1/browser/restart
    browser.test_a_soft_restart_leaves_the_browser_running: mode mode=soft
    .test_a_restart_is_a_hard_one: mode=hard mode~hard
    host/browser.test_addresses_that_are_blocked_or_allowed: url_blocklist url_allowlist
    browser.test_restart_without_file_pickers: allow_file_selection_dialogs
    browser.test_restart_with_a_locale: locale
GET /v1/browser/screenshot
    desktop.test_a_screenshot_is_what_is_on_the_screen: format~png
    desktop.test_a_jpeg_is_nearly_that: format format=jpg format=jpeg quality
    .test_a_screenshot_that_is_asked_for_as_png: format=png >x-screen-width >x-screen-height >x-image-width >x-image-height
POST /v1/browser/state/load
    browser_state.test_saved_and_loaded: path
POST /v1/browser/state/save
    browser_state.test_saved_and_loaded: path
GET /v1/browser/tabs
    browser.test_tabs_are_opened_listed_activated_and_closed:
POST /v1/browser/tabs
    browser.test_tabs_are_opened_listed_activated_and_closed: url
DELETE /v1/browser/tabs/{index}
    browser.test_tabs_are_opened_listed_activated_and_closed: index
PUT /v1/browser/tabs/{index}/activate
    browser.test_tabs_are_opened_listed_activated_and_closed: index
POST /v1/display/record
    record.test_a_recording_is_what_was_on_the_screen: action action=start action=stop save_path fps width height
    record.test_a_recording_is_what_was_on_the_screen: >data.status >data.status=stopped >data.save_path >data.duration >data.file_size_bytes
    record.test_one_at_a_time: action=status >data.status=recording
    .test_a_display_that_was_never_recorded_is_idle: >data.status=idle
    record.test_defaults: fps~5
    record.test_quality: crf
    record.test_it_ends_after_its_longest_duration: max_duration
    .test_the_defaults_of_a_recording: crf~28
    .test_the_document_says_the_same: max_duration~600
"""


# Of the tables of behaviour.md: section, then the beginning of a row's first cell, and the tests of what it says of the browser.
TABLES = """
2
    `/vnc/index.html?autoconnect=true`: web/vnc.test_autoconnect_and_other_parameters
    `/websockify`: vnc.test_the_picture
    `/cdp/json/version`: cdp.test_version
    `/devtools/browser/{id}`: cdp.test_playwright_by_the_socket_alone
    `/mcp`: .test_every_tool_of_the_tables
    `/vscode`, `/vnc`: vnc.test_short_addresses
10
    info: browser.test_info
    screenshot: desktop.test_a_screenshot_is_what_is_on_the_screen page_screenshot.test_what_is_in_view
    config: .test_the_screen_has_each_of_the_sizes
    click, fill, hover: page_click.test_hovering .test_a_click_by_index_is_one_of_the_left_button .test_hovering_by_index
    navigate: page_navigate.test_an_endless_load page_navigate.test_a_file
    scroll: .test_scrolling
    keys: page_fill.test_keys
    select, upload: page_fill.test_an_option page_fill.test_files_that_arrive
    evaluate: page_evaluate.test_values
    wait: page_wait.test_an_element page_wait.test_a_download page_wait.test_a_function page_wait.test_a_response
    markdown: page_markdown.test_a_page page_navigate.test_html_and_text
    console: page_console.test_it_is_kept_over_pages_and_cleared page_console.test_export
    record: page_record.test_from_start_to_stop page_record.test_what_passes_in_a_pause_is_left_out page_record.test_defaults
    tabs: browser.test_tabs_are_opened_listed_activated_and_closed
    cookies: cookies.test_what_is_set_is_sent cookies.test_clearing
    state: browser_state.test_saved_and_loaded
    network: network_routes.test_headers_for_all network_routes.test_scoped_headers network_routes.test_abort network_har.test_a_file
    captcha: captcha.test_somebody_does
    restart: browser.test_a_soft_restart_leaves_the_browser_running .test_a_restart_is_a_hard_one
    downloads: browser.test_downloads_go_to_the_users_directory cdp.test_where_downloads_go_is_ours_again_when_clients_leave
    MOVE_TO, DRAG_TO: desktop.test_the_mouse desktop.test_dragging .test_what_is_needed_is_asked_for
    MOVE_REL, DRAG_REL: desktop.test_the_mouse desktop.test_dragging .test_what_is_needed_is_asked_for
    CLICK: .test_every_button_of_the_mouse .test_as_many_clicks_as_were_asked_for
    RIGHT_CLICK, DOUBLE_CLICK: desktop.test_the_mouse
    MOUSE_DOWN, MOUSE_UP: .test_every_button_of_the_mouse
    SCROLL: desktop.test_the_mouse .test_what_an_action_does_without_its_fields
    TYPING: desktop.test_any_text_can_be_typed_into_a_terminal .test_what_an_action_does_without_its_fields
    PRESS, KEY_DOWN, KEY_UP: desktop.test_keys_by_their_names
    HOTKEY: desktop.test_keys_by_their_names
    WAIT: desktop.test_waiting
13
    Streamable HTTP; standard initialize: .test_a_bare_call_of_a_tool mcp_browser.test_tabs
    `?search=NAME`: mcp_browser.test_documented_names_are_listed
    Names are prefixed by server: mcp_browser.test_documented_names_are_listed
    Server names come from: mcp_browser.test_the_browser_is_a_server
    REST call: mcp_browser.test_the_browser_is_a_server
    browser_get_info: mcp_browser.test_structured_results_are_what_their_schemas_say
    browser_navigate: mcp_browser.test_navigate
    browser_evaluate: mcp_browser.test_evaluate
    browser_form_input_fill: mcp_browser.test_fill_type_and_keys
    browser_element_click: mcp_browser.test_click mcp_browser.test_hover
    browser_element_select: mcp_browser.test_select
    browser_press_key: mcp_browser.test_fill_type_and_keys
    browser_scroll: mcp_browser.test_scroll
    browser_new_tab: mcp_browser.test_tabs
    browser_switch_tab: mcp_browser.test_tabs
    browser_close_tab: mcp_browser.test_tabs
    browser_tab_list: .test_every_tool_of_the_tables mcp_browser.test_reading mcp_browser.test_downloads mcp_browser.test_history
16
    BROWSER_REMOTE_DEBUGGING_PORT: .test_the_environment_of_the_browser host/browser.test_devtools_inside
    DISPLAY_WIDTH: .test_the_environment_of_the_browser
    HOMEPAGE: .test_the_environment_of_the_browser
    BROWSER_LANG: .test_the_environment_of_the_browser
    CHROME_UI_LANG: .test_the_environment_of_the_browser
    BROWSER_USER_AGENT: .test_the_environment_of_the_browser
    BROWSER_EXTRA_ARGS: .test_the_environment_of_the_browser
    BROWSER_ALLOW_FILE_SELECTION_DIALOGS: .test_the_environment_of_the_browser
    DNS_OVER_HTTPS_TEMPLATES: browser.test_names_by_https
    PROXY_SERVER: browser.test_a_proxy
    PROXY_EXCLUDE: browser.test_a_proxy
20
    1: .test_a_restart_is_a_hard_one browser.test_a_hard_restart_starts_another_browser_with_the_same_profile
    4: vnc.test_a_ticket_for_all
    9: .test_a_tool_by_another_name
    10: mcp_browser.test_the_browser_is_a_server
    11: .test_every_tool_of_the_tables
    17: cdp.test_version cdp.test_playwright_beside_the_rest_api
    18: .test_every_action_is_known
    19: .test_older_names_of_the_guides
    20: .test_the_shapes_of_results
    24: browser.test_restart_without_file_pickers
    28: mcp_browser.test_evaluate .test_a_tool_by_another_name
"""

# Rows that say nothing of the browser or the display, or what is deliberately otherwise.
APART = {
    "2": """`/`, `/v1/docs`, `/llms.txt`, `/terminal`, `/codex`, `/static/sandbox/xterm@5, `/code-server/`, `/jupyter`, `/tickets`, `/health`""",
    "10": "",
    "13": "get_context, get_packages, execute_code, execute_bash, file_operations, str_replace_editor, convert_to_markdown",
    # A port of its own have neither the picture of the desktop, which is at /websockify alone, nor any server of MCP.
    "16": """WORKSPACE, USER, TZ, PUBLIC_PORT, AUTH_BACKEND_PORT, SANDBOX_SRV_PORT, MCP_HUB_PORT, GEM_SERVER_PORT, MCP_SERVER_BROWSER_PORT,
        TINYPROXY_PORT, CODE_SERVER_PORT, VNC_SERVER_PORT, WEBSOCKET_PROXY_PORT, WAIT_PORTS, PROXY_MAP,
        JWT_PUBLIC_KEY, TICKET_TTL_SECONDS, DISABLE_JUPYTER, PYTHON_VERSION, AIO_SKILLS_PATH, RUN_HOOK_INIT, PIP_INDEX_URL, GITHUB_TOKEN,
        CODEX_API_KEY, CODEX_MODEL, CODEX_BASE_URL, CODEX_CONFIG_TOML, OPENCODE_API_KEY, OPENCODE_PROVIDER, OPENCODE_JSON,
        SANDBOX_MEMORY_LIMIT, HOST_PORT, SANDBOX_BASE_URL""",
    # 34: nothing is asked for names unless somebody says so, whatever the compose file has.
    "20": "2, 3, 5, 6, 7, 8, 12, 13, 14, 15, 16, 21, 22, 23, 25, 26, 27, 29, 30, 31, 32, 33, 34",
}


# --- the walk ------------------------------------------------------------------------------------


def named(text):
    """[(heading, test, rows)] of ROWS and TABLES; a test that begins with a dot is in this file."""
    found = []
    for line in text.strip().splitlines():
        if not line.startswith("    "):
            found.append((line.strip(), None, []))
            continue
        before, _, after = line.strip().partition(":")
        found.append((found[-1][0], before, after.split()))
    return found


def test_of(name):
    return HERE + name if name.startswith(".") else name


test_of.__test__ = False


def names_of(operation):
    """{row: the tests that are named for it}."""
    found = {}
    for heading, test, rows in named(ROWS):
        if heading == operation and test:
            for row in ["", *rows]:
                found.setdefault(row, []).append(test_of(test))
    return found


def mentions(test, row):
    """Whether a test's text has the name of a field, and the value that a row is about; a default may be asserted by saying
    nothing."""
    name, _, value = row.partition("=")
    words = [] if "~" in name else [name.lstrip(">").split(".")[-1], value]
    text = contract.test_text(test)
    assert text is not None, f"there is no test {test}"
    return all(re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", text) for word in words if word)


@contract.NEEDED
@pytest.mark.parametrize("operation", [name for name, _ in contract.operations()])
def test_every_row_has_its_test(operation):
    rows, names = set(contract.rows(dict(contract.operations())[operation])), names_of(operation)
    assert sorted(rows - set(names)) == [], "rows of the contract that no test is named for"
    assert sorted(set(names) - rows) == [], "rows that the contract does not have"
    assert [(row, test) for row, tests in names.items() for test in tests if not mentions(test, row)] == []


@contract.NEEDED
def test_the_rows_of_no_other_operation():
    assert {heading for heading, _, _ in named(ROWS)} == {name for name, _ in contract.operations()}


@contract.NEEDED
@pytest.mark.parametrize("section", sorted(APART, key=int))
def test_every_row_of_a_table_has_its_test(section):
    cells, left = [row[0] for row in contract.sections()[section]], []
    begins = {before: tests for heading, before, tests in named(TABLES) if heading == section and before}
    apart = [word.strip() for word in APART[section].split(",") if word.strip()]
    for cell in cells:
        mine = [begin for begin in [*begins, *apart] if cell == begin or cell.startswith(begin) and not cell[len(begin)].isalnum()]
        left += [cell] * (len(mine) == 0)
    assert left == [], "rows of behaviour.md that no test is named for"
    assert [begin for begin in begins if not any(cell.startswith(begin) for cell in cells)] == []
    assert [test for tests in begins.values() for test in tests if contract.test_text(test_of(test)) is None] == []


# --- what our own document says of them ----------------------------------------------------------


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    env = clean_environment(tmp_path_factory.mktemp("home"))
    return json.loads(subprocess.run([program("aio"), "openapi"], capture_output=True, check=True, env=env).stdout)


def facets(*wanted):
    """(operation, field, facet, value) of all that the contract says of fields in those words."""
    for name, operation in contract.operations():
        for field, schema, _ in contract.fields(operation):
            yield from ((name, field, facet, schema[facet]) for facet in wanted if facet in schema)


@contract.NEEDED
@pytest.mark.parametrize("operation, field, facet, value", list(facets("default")))
def test_the_document_says_the_same(ours, operation, field, facet, value):
    """What it says of a field is what the server fills it with: both come from one table."""
    method, path = operation.split(" ")
    mine = ours["paths"][path][method.lower()]
    schemas = [contract.plain(one["schema"], ours) for one in mine.get("parameters", []) if one["name"] == field]
    for content in mine.get("requestBody", {}).get("content", {}).values():
        body = contract.plain(content["schema"], ours)
        for variant in [contract.plain(one, ours) for one in body.get("oneOf", [body])]:
            tag = next((one.get("const") or one["enum"][0] for name, one in variant.get("properties", {}).items() if name == "action_type"), None)
            schemas += [one for name, one in contract.inside(variant, f"{tag}." if tag else "", ours) if name == field]
    assert [one.get(facet) for one in schemas] == [value]


# --- what is refused, field by field -------------------------------------------------------------

# A body or query that is right, for each operation that takes some.
RIGHT = {
    "POST /v1/browser/captcha/wait": {"timeout": 0}, "POST /v1/browser/config": {"resolution": {"width": 1280, "height": 1024}},
    "POST /v1/browser/cookies": {"cookies": []}, "POST /v1/browser/network/export_har": {"save_path": "log.har"},
    "POST /v1/browser/network/headers": {"headers": {}}, "GET /v1/browser/network/requests": {},
    "POST /v1/browser/network/route": {"url_pattern": "**/never", "response": {}}, "DELETE /v1/browser/network/route": {"url_pattern": "**/never"},
    "POST /v1/browser/network/scoped_headers": {"origin": "http://127.0.0.1", "headers": {}},
    "POST /v1/browser/page/wait": {"type": "load"},
    "POST /v1/browser/restart": {"mode": "soft"}, "GET /v1/browser/screenshot": {}, "POST /v1/display/record": {"action": "status"},
    "POST /v1/browser/page/record": {"action": "status"},
    "POST /v1/browser/page/select_option": {"selector": "select", "index": 0}, "POST /v1/browser/page/check": {"selector": "#c"},
    "POST /v1/browser/page/uncheck": {"selector": "#c"}, "POST /v1/browser/page/upload_file": {"selector": "#f", "files": []},
    "POST /v1/browser/page/fill_form": {"items": []}, "POST /v1/browser/page/scroll_to_element": {"selector": "#c"},
    "POST /v1/browser/page/console/export": {"save_path": "console.json"}, "POST /v1/browser/page/evaluate": {"expression": "1"},
    "POST /v1/browser/page/find_text": {"keyword": "a"}, "POST /v1/browser/state/save": {"path": "state.json"},
    "POST /v1/browser/state/load": {"path": "state.json"}, "POST /v1/browser/page/fill": {"selector": "#i", "text": "t"},
    "POST /v1/browser/page/type": {"text": "t"}, "POST /v1/browser/page/press_key": {"key": "a"},
    "POST /v1/browser/page/hot_key": {"keys": ["Shift", "a"]},
    "POST /v1/browser/page/navigate": {"url": "about:blank"},
}
# Which older clients leave out: the file comes in the response then.
MAY_BE_ABSENT = {("POST /v1/browser/network/export_har", "save_path")}
ACTIONS = {"MOVE_TO": {"x": 5, "y": 5}, "DRAG_TO": {"x": 5, "y": 5}, "MOVE_REL": {"x_offset": 0, "y_offset": 0},
           "DRAG_REL": {"x_offset": 0, "y_offset": 0}, "TYPING": {"text": "t"}, "PRESS": {"key": "F24"}, "KEY_DOWN": {"key": "Shift"},
           "KEY_UP": {"key": "Shift"}, "HOTKEY": {"keys": ["F24"]}, "WAIT": {"duration": 0.01}}


def changed(operation, field, value=...):
    """A right request whose one field is another, or left out."""
    if operation.endswith("/actions"):
        tag, _, field = field.partition(".")
        request = {"action_type": tag, **ACTIONS.get(tag, {})}
    else:
        request = json.loads(json.dumps(RIGHT[operation]))
    *way, last = field.split(".")
    place = request
    for one in way:
        place = place[one]
    if value is ...:
        place.pop(last, None)
    else:
        place[last] = value
    return request


def send(server, operation, request):
    method, path = operation.split(" ")
    return server.request(method, path, **{"params" if method == "GET" else "json": request}, timeout=START_SECONDS)


def beyond(facet, value):
    return {"minimum": value - 1, "maximum": value + 1, "exclusiveMinimum": value, "minLength": "", "minItems": []}[facet]


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    desktop.warm(server)
    return server


@pytest.fixture
def parts(server, page):  # noqa: F811
    """A page that has something for each request of RIGHT."""
    page.show("<select><option>one</select><input type=checkbox id=c><input id=i><input type=file id=f>")
    assert BROWSER.reply(server, "state/save", path="state.json")["success"]
    return page


@BROWSER_NEEDED
def test_what_is_right_is_taken(server, parts):
    """Without which the refusals below would say little."""
    for operation, request in RIGHT.items():
        answer = send(server, operation, request)
        assert answer.status_code == 200, (operation, answer.text)
        assert "json" not in answer.headers["content-type"] or answer.json()["success"], (operation, answer.text)


@BROWSER_NEEDED
@contract.NEEDED
def test_what_is_needed_is_asked_for(server, parts):
    for operation, about in contract.operations():
        for field, _, needed in contract.fields(about):
            if needed and "{" not in operation and (operation, field) not in MAY_BE_ABSENT:
                answer = send(server, operation, changed(operation, field))
                assert answer.status_code == 422 and field.split(".")[-1] in answer.text, (operation, field, answer.text)


@BROWSER_NEEDED
@contract.NEEDED
def test_other_values_than_those_there_are(server, parts):
    for operation, field, _, values in facets("enum"):
        numbers = isinstance(values[0], int)
        for other in (min(values) - 1, max(values) + 1) if numbers else ("nonsense", values[0] + "s", 7):
            answer = send(server, operation, changed(operation, field, other))
            assert answer.status_code == 422 and field.split(".")[-1] in answer.text, (operation, field, answer.text)
            assert numbers or other == 7 or all(value in answer.text for value in values), (operation, field, answer.text)


@BROWSER_NEEDED
@contract.NEEDED
def test_values_beyond_the_limits(server, parts):
    """One step beyond is refused; what is at a limit is taken."""
    for operation, field, facet, value in facets("minimum", "maximum", "exclusiveMinimum", "minLength", "minItems"):
        answer = send(server, operation, changed(operation, field, beyond(facet, value)))
        assert answer.status_code == 422 and (field.split(".")[-1] in answer.text or "resolution" in field), (operation, field, facet, answer.text)
        if facet in ("minimum", "maximum"):
            answer = send(server, operation, changed(operation, field, value))
            assert answer.status_code == 200, (operation, field, facet, answer.text)


# --- actions on the screen -----------------------------------------------------------------------

LOG = """<style>body { margin: 0; height: 5000px }</style><div id=spot style='width:300px;height:200px;background:red'></div><input id=i>
<script>var log = []; oncontextmenu = (event) => event.preventDefault(); addEventListener('paste', () => log.push('paste'));
for (const kind of ['mousedown', 'mouseup']) addEventListener(kind, (e) => { e.preventDefault(); log.push(kind + e.button) });
addEventListener('click', (event) => log.push('click' + event.detail))</script>"""


def act(server, kind, **more):
    answer = BROWSER.reply(server, "actions", action_type=kind, **more)
    assert answer["success"] and answer["action_performed"] == kind, answer


def on_screen(page, selector):  # noqa: F811
    """Where on the display the middle of an element is."""
    x, y = page.evaluate(f"""(({{x, y, width, height}}) => [screenX + x + width / 2, screenY + outerHeight - innerHeight + y + height / 2])
        (document.querySelector('{selector}').getBoundingClientRect())""")
    return {"x": round(x), "y": round(y)}


def logged(page, count):  # noqa: F811
    """The next entries of a page's log, and no more than that."""
    assert eventually(lambda: len(page.evaluate("log")) >= count), page.evaluate("log")
    return page.evaluate("log.splice(0)")


@pytest.fixture
def spot(server, page):  # noqa: F811
    page.show(LOG)
    act(server, "MOVE_TO", **on_screen(page, "#spot"))
    return page


@BROWSER_NEEDED
@pytest.mark.parametrize("button, number", [("left", 0), ("middle", 1), ("right", 2)])
def test_every_button_of_the_mouse(server, spot, button, number):
    both = [f"mousedown{number}", f"mouseup{number}"]
    act(server, "CLICK", **on_screen(spot, "#spot"), button=button)
    assert logged(spot, 2 + (number == 0))[:2] == both
    act(server, "MOUSE_DOWN", button=button)
    assert logged(spot, 1) == both[:1]
    act(server, "MOUSE_UP", button=button)
    assert logged(spot, 1 + (number == 0))[0] == both[1]


@BROWSER_NEEDED
@pytest.mark.parametrize("num_clicks", [1, 2, 3])
def test_as_many_clicks_as_were_asked_for(server, spot, num_clicks):
    act(server, "MOVE_TO", **{"x": on_screen(spot, "#spot")["x"] + 40 * num_clicks, "y": on_screen(spot, "#spot")["y"]})
    act(server, "CLICK", num_clicks=num_clicks)
    assert [one for one in logged(spot, 3 * num_clicks) if "click" in one] == [f"click{n + 1}" for n in range(num_clicks)]
    act(server, "MOVE_TO", x=5, y=5)
    act(server, "DOUBLE_CLICK", **{"x": 0, "y": 0} | on_screen(spot, "#spot"))
    assert logged(spot, 6)[-1].startswith("click")


@BROWSER_NEEDED
def test_what_an_action_does_without_its_fields(server, spot):
    act(server, "MOVE_REL", x_offset=-80, y_offset=0)  # away from the clicks of other tests, which this would be another of
    act(server, "CLICK")
    assert logged(spot, 3) == ["mousedown0", "mouseup0", "click1"]
    act(server, "MOUSE_DOWN")
    act(server, "MOUSE_UP")
    assert logged(spot, 3)[:2] == ["mousedown0", "mouseup0"]
    act(server, "SCROLL", dy=-3)
    assert eventually(lambda: spot.evaluate("scrollY") > 0)
    act(server, "SCROLL", dy=100)
    assert eventually(lambda: spot.evaluate("scrollY") == 0)
    act(server, "SCROLL")
    spot.evaluate("i.focus()")
    act(server, "TYPING", text="by the clipboard")
    assert eventually(lambda: spot.evaluate("i.value") == "by the clipboard") and spot.evaluate("log.splice(0)") == ["paste"]
    assert spot.evaluate("[scrollX, scrollY]") == [0, 0]
    act(server, "TYPING", text=", key by key", use_clipboard=False)
    assert eventually(lambda: spot.evaluate("i.value") == "by the clipboard, key by key") and spot.evaluate("log") == []


@contract.NEEDED
@BROWSER_NEEDED
def test_every_action_is_known(server):
    (body,) = contract.bodies(dict(contract.operations())["POST /v1/browser/actions"])
    status, text = BROWSER.refused(server, "actions", action_type="JUMP")
    assert status == 422 and len(body["discriminator"]["mapping"]) == 16 and all(f"'{kind}'" in text for kind in body["discriminator"]["mapping"])


@contract.NEEDED
def test_the_screen_has_each_of_the_sizes():
    """That it can be given each of them is a test of the desktop."""
    (row,) = [cells for cells in contract.sections()["10"] if cells[0] == "config"]
    tested = re.findall(r"\d+x\d+", contract.source("tests/api/test_desktop.py")["RESOLUTIONS"])
    assert sorted(re.findall(r"\d+x\d+", row[1])) == sorted(tested) and len(tested) == 13


@BROWSER_NEEDED
def test_a_screenshot_that_is_asked_for_as_png(server):
    answer = server.get("/v1/browser/screenshot", params={"format": "png"})
    assert answer.content.startswith(b"\x89PNG\r\n") and answer.headers["x-screen-width"] == answer.headers["x-image-width"] == "1280"
    assert answer.headers["x-screen-height"] == answer.headers["x-image-height"] == "1024"


@BROWSER_NEEDED
def test_there_is_no_page_of_devtools(server):
    assert server.get("/v1/browser/info").json()["data"]["cdp_ui_url"] is None


# --- acting on pages -----------------------------------------------------------------------------


@BROWSER_NEEDED
def test_a_click_by_index_is_one_of_the_left_button(server, page):  # noqa: F811
    page.show(LOG + "<p>text<a href=#there>link</a><button id=b onclick='document.title = 1'>Go</button><button hidden>no</button>")
    listed = server.get("/v1/browser/page/elements").json()["data"]
    assert [(one["index"], one["tag"]) for one in listed] == [(0, "input"), (1, "a"), (2, "button")]
    done(server, "click", index=2)
    page.becomes("document.title", "1")
    assert page.evaluate("log.splice(0)") == ["mousedown0", "mouseup0", "click1"]
    done(server, "click", index=1)
    page.becomes("location.hash", "#there")
    assert "9" in failed(server, "click", index=9)


@BROWSER_NEEDED
def test_hovering_by_index(server, page):  # noqa: F811
    page.show("<a href=#>one</a> <button onmouseenter='document.title = 1'>two</button>")
    done(server, "hover", index=1)
    page.becomes("document.title", "1")


WIDE = "<style>body { margin: 0; width: 9000px; height: 9000px }</style><div id=end style='position:absolute;left:8000px;top:8000px'>end</div>"


@BROWSER_NEEDED
def test_scrolling(server, page):  # noqa: F811
    page.show(WIDE)
    for body, x, y in (({}, 0, 300), ({"amount": 500}, 0, 800), ({"direction": "right", "amount": 400}, 400, 800),
                       ({"direction": "up"}, 400, 500), ({"direction": "left", "amount": 150}, 250, 500), ({"direction": "down", "amount": 1}, 250, 501)):
        done(server, "scroll", **body)
        assert eventually(lambda: page.evaluate("[scrollX, scrollY]") == [x, y]), (body, page.evaluate("[scrollX, scrollY]"))
    answer = BROWSER.send(server, "page/scroll", direction="sideways")
    assert answer.status_code == 422 and "left" in answer.text


@BROWSER_NEEDED
def test_scrolling_to_a_place(server, page):  # noqa: F811
    page.show(WIDE)
    for body, at in (({"x": 700, "y": 900}, [700, 900]), ({"x": 50}, [50, 0]), ({"y": 60}, [0, 60]), ({}, [0, 0]), ({"x": None, "y": 10 ** 6}, None)):
        done(server, "scroll_to", **body)
        at = at or page.evaluate("[0, document.documentElement.scrollHeight - document.documentElement.clientHeight]")
        assert eventually(lambda: page.evaluate("[scrollX, scrollY]") == at), (body, page.evaluate("[scrollX, scrollY]"))


@BROWSER_NEEDED
def test_scrolling_to_an_element(server, page):  # noqa: F811
    page.show(WIDE)
    done(server, "scroll_to_element", selector="#end")
    page.becomes("(({x, y}) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight)(end.getBoundingClientRect())", True)


@BROWSER_NEEDED
def test_what_never_comes_is_waited_for_as_long_as_it_says(server, page, site):  # noqa: F811
    """30 seconds, which the two spend together."""
    page.show("<p>here")
    held = threading.Event()
    site.pages["/held"] = lambda _: held.wait() and None
    try:
        began = time.monotonic()
        peers = [server.begin("/v1/browser/page/wait", type="url", url="**/never"), server.begin("/v1/browser/page/navigate", url=site.url("/held"))]
        for peer in peers:
            with peer:
                answer = peer.answer("POST").json()
                assert not answer["success"] and time.monotonic() - began > 29, answer
    finally:
        held.set()


@BROWSER_NEEDED
def test_a_captcha_is_looked_for_every_two_seconds(server, page):  # noqa: F811
    """It is gone after the first look; the next one is what sees that."""
    def seconds(more):
        page.show("<div class=h-captcha style='width:300px;height:80px'></div>")
        assert server.get("/v1/browser/captcha/detect").json()["data"]["detected"]
        with server.begin("/v1/browser/captcha/wait", timeout=60, **more) as peer:
            began = time.monotonic()
            page.later("document.querySelector('.h-captcha').remove()", 100)
            assert peer.answer("POST").json()["data"] == {"resolved": True}
            return time.monotonic() - began

    for more, least in (({}, 1.8), ({"poll_interval": 0.6}, 0.5)):
        assert eventually(lambda: seconds(more) > least)  # the first look may come after the end, on a busy machine


@BROWSER_NEEDED
def test_the_last_hundred_requests(server, page, site):  # noqa: F811
    site.pages["/piece"] = "piece"
    page.show("<p>here")
    page.evaluate("(async () => { for (let n = 0; n < 130; n++) await (await fetch('/piece?' + n)).text() })()")
    urls = [one["url"] for one in server.get("/v1/browser/network/requests").json()["data"]]
    assert urls == [site.url(f"/piece?{n}") for n in range(30, 130)]
    assert len(server.get("/v1/browser/network/requests", params={"limit": 131}).json()["data"]) == 131


@BROWSER_NEEDED
def test_a_restart_is_a_hard_one(server):
    def address():
        return server.get("/v1/browser/info", timeout=START_SECONDS).json()["data"]["cdp_url"]

    seen = [address()]
    for body in ({}, {"mode": "hard"}, {"mode": None}):
        assert BROWSER.reply(server, "restart", **body)["success"]
        seen.append(address())
    assert len(set(seen)) == 4
    server.at_rest()
    server.baseline = server.possessions()


# --- recording -----------------------------------------------------------------------------------


@BROWSER_NEEDED
def test_a_display_that_was_never_recorded_is_idle(start_server, tester):  # noqa: F811
    status = DISPLAY.ask(start_server(**desktop.options(tester)), "record", action="status")
    assert status == {"status": "idle", "save_path": None, "duration": 0, "file_size_bytes": None}


@BROWSER_NEEDED
def test_the_defaults_of_a_recording(server, tester):  # noqa: F811
    """As the program that records was told."""
    path = DISPLAY.ask(server, "record", action="start", save_path=f"/home/{tester}/short.mp4")["save_path"]
    try:
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in server.children()]
        (words,) = [words for words in lines if Path(words[0].decode()).name == "ffmpeg"]
        assert words[words.index(b"-crf") + 1] == b"28"
    finally:
        assert DISPLAY.ask(server, "record", action="stop")["save_path"] == path
    server.at_rest()
    server.baseline = server.possessions()


# --- the environment -----------------------------------------------------------------------------


@BROWSER_NEEDED
def test_the_environment_of_the_browser(start_server, tester, site):  # noqa: F811
    options = desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/by-environment")
    options["env"] |= {"DISPLAY_WIDTH": "1024", "DISPLAY_HEIGHT": "768", "HOMEPAGE": site.url(site.put("<title>First</title>")),
                       "BROWSER_LANG": "fr-CA", "CHROME_UI_LANG": "en-GB", "BROWSER_USER_AGENT": "Probe/1.0",
                       "BROWSER_EXTRA_ARGS": "--force-prefers-reduced-motion", "BROWSER_ALLOW_FILE_SELECTION_DIALOGS": "false"}
    server = start_server(**options)
    desktop.warm_browser(server)
    info = server.get("/v1/browser/info").json()["data"]
    assert info["viewport"] == {"width": 1024, "height": 768} and info["user_agent"] == "Probe/1.0"
    assert eventually(lambda: [tab["title"] for tab in tabs(server)] == ["First"])
    asked = next(one for one in site.web.server.log if one.headers.get("user-agent") == "Probe/1.0")
    assert asked.headers["accept-language"].startswith("fr-CA")
    port = options["env"]["BROWSER_REMOTE_DEBUGGING_PORT"]
    with desktop.DevTools(f"ws://127.0.0.1:{port}/devtools/page/{tabs(server)[0]['id']}") as first:
        assert first.evaluate("[navigator.language, matchMedia('(prefers-reduced-motion)').matches]") == ["fr-CA", True]
        shown = "en-GB" if (Path(desktop.CHROMIUM).parent / "locales/en-GB.pak").exists() else "en-US"
        assert first.evaluate("Intl.DateTimeFormat().resolvedOptions().locale") == shown
        assert first.evaluate("new Promise((done) => { const i = document.createElement('input'); i.type = 'file';"
                              "i.oncancel = () => done('canceled'); i.click() })") == "canceled"
    server.at_rest()
    server.baseline = server.possessions()


# --- MCP -----------------------------------------------------------------------------------------


def bare(server, tool, /, **arguments):
    """The result of a tool, as the samples of the guides ask for it: neither jsonrpc nor an id, and the reply as JSON."""
    return server.post("/mcp", {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}, timeout=ANSWER_SECONDS).json()


@contract.NEEDED
@BROWSER_NEEDED
def test_every_tool_of_the_tables(server):
    names = {name for row in contract.sections()["13"][5:] for name in row[0].split(", ")}
    for path in ("/mcp", "/v1/mcp"):
        listed = server.post(path, {"method": "tools/list"}).json()["result"]["tools"]
        assert len(names) == 27 and {f"sandbox_{name}" for name in names} <= {tool["name"] for tool in listed}


@BROWSER_NEEDED
def test_a_bare_call_of_a_tool(server, page):  # noqa: F811
    url = page.show("<title>Shown</title><button>Go</button>")
    assert url in bare(server, "sandbox_browser_tab_list")["result"]["content"][0]["text"]
    assert "[0]<button>Go</button>" in bare(server, "sandbox_browser_get_clickable_elements")["result"]["content"][0]["text"]
    refused = bare(server, "sandbox_browser_nothing")
    assert "sandbox_browser_nothing" in refused["error"]["message"]


@BROWSER_NEEDED
def test_a_tool_by_another_name(server, page):  # noqa: F811
    def text(tool, /, **arguments):
        result = bare(server, tool, **arguments)["result"]
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    page.show("<title>Shown</title><h1>Some text</h1><input id=i><button onclick='document.title = i.value'>Go</button>")
    text("browser_type", selector="#i", text="typed")
    text("browser_click", selector="button")
    page.becomes("document.title", "typed")
    assert "Some text" in text("browser_extract")
    assert "typed" in text("browser_evaluate", script="document.title") and "typed" in text("browser_evaluate", expression="document.title")
    assert [item["type"] for item in bare(server, "browser_screenshot")["result"]["content"]][-1] == "image"
    text("browser_execute_action", action_type="WAIT", duration=0.01)
    assert "about:blank" in text("navigate", url="about:blank")
    assert "about:blank" in text("browser_navigate", url="about:blank")


# --- older names, and shapes ---------------------------------------------------------------------


def old(server, method, path, body=None):
    """A call by hand, as clients from before the current SDK send it."""
    text = b"" if body is None else json.dumps(body).encode()
    with server.connect() as peer:
        head = {"Content-Type": "application/json"} if body is not None else {}
        answer = peer.ask(request(f"/v1/browser/{path}", method, head, text))
    assert answer.status == 200 and answer.json()["success"], answer
    return answer.json()["data"]


@BROWSER_NEEDED
def test_older_names_of_the_guides(server, page, site):  # noqa: F811
    page.show("<input id=i>")
    try:
        assert old(server, "POST", "config", {"resolution": "1280x720"}) == {"width": 1280, "height": 720}
        assert server.get("/v1/browser/info").json()["data"]["viewport"] == {"width": 1280, "height": 720}
    finally:
        assert old(server, "POST", "config", {"resolution": "1280x1024"}) == {"width": 1280, "height": 1024}
    assert old(server, "POST", "page/evaluate", {"script": "6 * 7"}) == 42
    old(server, "POST", "page/fill", {"selector": "#i", "value": "by value"})
    assert page.evaluate("i.value") == "by value"
    page.evaluate("document.cookie = 'mine=1'")
    assert [cookie["name"] for cookie in old(server, "GET", "cookies?url=" + site.url())] == ["mine"]
    assert old(server, "GET", "cookies?url=http://other.test/") == []
    old(server, "POST", "network/route", {"pattern": "**/mocked", "response_body": "made up", "response_status": 203})
    assert page.evaluate("fetch('/mocked').then(async (response) => [response.status, await response.text()])") == [203, "made up"]
    old(server, "DELETE", "network/route", {"pattern": "**/mocked"})
    assert page.evaluate("fetch('/mocked').then((response) => response.status)") == 404
    for body in (None, {}, {"save_path": None}):
        urls = [entry["request"]["url"] for entry in old(server, "POST", "network/export_har", body)["log"]["entries"]]
        assert site.url("/mocked") in urls
    server.request("DELETE", "/v1/browser/cookies")


@BROWSER_NEEDED
def test_the_shapes_of_results(server, page):  # noqa: F811
    """Lists, text and values themselves, and not objects that hold them."""
    page.show("<p>text")
    assert old(server, "GET", "page/text").strip() == "text"
    assert [type(old(server, "GET", path)) for path in ("tabs", "cookies", "network/requests", "page/elements", "page/console", "page/html")] \
        == [list, list, list, list, list, str]
    assert old(server, "POST", "page/evaluate", {"expression": "[1, null]"}) == [1, None]
    assert old(server, "POST", "page/find_text", {"keyword": "nowhere"}) == []
