package main

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/cmd/addon-operator/webui"
)

//go:generate go test . -run Reference -update

var update = flag.Bool("update", false, "write the reference pages that are made from the code")

// TestReferencePagesSayWhatTheProgramTakes compares the reference pages of commands, routes and
// settings with the code.
func TestReferencePagesSayWhatTheProgramTakes(t *testing.T) {
	for name, want := range map[string]string{"cli.md": cliPage(), "http.md": httpPage(), "settings.md": settingsPage()} {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a page of documentation
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%s is not what go test ./cmd/addon-operator -run Reference -update writes (-want +got):\n%s", path, d)
		}
	}
}

const cliIntro = `# Commands

<!-- Made from the code by go test ./cmd/addon-operator -run Reference -update. -->

Most commands connect to the running operator over its debug socket. With ` + "`--store FILE`" + `, they read the store of a stopped
operator instead, and print its path and age on stderr. The commands ` + "`start`, `test`, `version`, `addons index`, `addons lint`" + `
and ` + "`addons package`" + `, and ` + "`workflow graph`" + ` without a run, need neither.

The socket serves HTTP. Most commands below name their route. ` + "`raw PATH`" + ` can use the routes without ` + "`POST`" + `, and curl
can use all routes. The suffix of a path selects the format. Settings with names such as password, secret, token, credentials
or key, and the data of Secrets, are shown as ` + "`(redacted 3f9a1c2e)`, with a hash that is the same for the same secret," + ` unless
` + "`--show-secrets`" + ` is given.

[Operations](../operations.md#the-store) lists the exit codes, and [HTTP](http.md) the routes.
`

// routesOf maps each command to the route of the debug socket that it requests.
var routesOf = map[string]string{
	"queue list": "/queue/list", "queue main": "/queue/main", "queue show": "/queue/show?queue=QUEUE",
	"global list": "/global/list", "global values": "/global/values", "global config": "/global/config",
	"global patches": "/global/patches", "global snapshots": "/global/snapshots",
	"module list": "/module/list", "module values": "/module/MODULE/values", "module config": "/module/MODULE/config",
	"module patches": "/module/MODULE/patches", "module snapshots": "/module/MODULE/snapshots",
	"values explain": "/module/MODULE/origins", "values diff": "/module/MODULE/changes",
	"module render": "/module/MODULE/render", "module resource-monitor": "/module/resource-monitor",
	"pause all": "POST /pause/all", "pause queue": "POST /pause/queue", "pause module": "POST /pause/module", "pause hook": "POST /pause/hook",
	"resume all": "POST /resume/all", "resume queue": "POST /resume/queue", "resume module": "POST /resume/module", "resume hook": "POST /resume/hook",
	"module run": "POST /module/MODULE/run", "reload": "POST /reload", "status": "/status", "diagnose": "/diagnosis",
	"addons list": "/addons/list", "addons get": "/addons/get?name=ID", "addons why": "/addons/why?name=CONFIGURATION",
	"hook list": "/hook/list", "hook run": "POST /hook/run", "hook snapshot": "/hook/HOOK/snapshots",
	"config list": "/config/list", "config set": "POST /config/set",
	"task retry": "POST /task/TASK/retry", "task skip": "POST /task/TASK/skip", "task release": "POST /task/TASK/release", "task cancel": "POST /task/TASK/cancel",
	"workflow inspect": "/workflow/inspect", "workflow list": "/workflow/list", "timeline": "/workflow/timeline", "logs": "/workflow/logs", "why": "/workflow/why",
	"plan":              "POST /plan.json",
	"webhooks withdraw": "POST /webhooks/withdraw",
	"store check":       "/store/check", "store dump": "/store/dump", "store snapshot": "/store/snapshot",
}

func cliPage() string {
	var page strings.Builder
	page.WriteString(cliIntro)
	root := newRoot()
	for _, group := range root.Commands() {
		if group.Hidden || group.Name() == "help" || group.Name() == "completion" {
			continue
		}
		if !group.HasSubCommands() {
			fmt.Fprintf(&page, "\n## %s\n\n%s.\n", group.Name(), group.Short)
			if route := routesOf[group.Name()]; route != "" {
				fmt.Fprintf(&page, "Route: `%s`.\n", route)
			}
			if group.Name() != "start" {
				page.WriteString(flagTable(group.LocalFlags()))
			} else {
				page.WriteString("\n[Settings](settings.md) lists its flags and variables. Without a command, the operator also starts.\n")
			}
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n", group.Name(), group.Short)
		for _, verb := range group.Commands() {
			fmt.Fprintf(&page, "\n### %s\n\n%s.\n", strings.TrimPrefix(verb.UseLine(), "addon-operator "), verb.Short)
			if route := routesOf[group.Name()+" "+verb.Name()]; route != "" {
				fmt.Fprintf(&page, "Route: `%s`.\n", route)
			}
			page.WriteString(flagTable(verb.LocalNonPersistentFlags()))
		}
	}
	page.WriteString("\n## Flags of all commands that connect\n" + flagTable(group(root, "queue").PersistentFlags()))
	return page.String()
}

func group(root *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	return root.Commands()[i]
}

// flagTable returns a Markdown table of the flags that are not hidden; empty if all flags are
// hidden.
func flagTable(flags *pflag.FlagSet) string {
	var rows strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, shownDefault(f), cell(f.Usage))
	})
	if rows.Len() == 0 {
		return ""
	}
	return "\n| flag | default | |\n|---|---|---|\n" + rows.String()
}

// shownDefault returns the default of a flag. A default that depends on the machine
// is described in general terms.
func shownDefault(f *pflag.Flag) string {
	switch f.Name {
	case "tmp-dir":
		return "`/tmp/addon-operator`"
	case "hook-tools-dir":
		return "`hooktools` beside the program"
	}
	if f.DefValue == "" {
		return ""
	}
	return "`" + f.DefValue + "`"
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

const httpIntro = `# HTTP

<!-- Made from the code by go test ./cmd/addon-operator -run Reference -update. -->

The operator serves only these paths on port 9650 (` + "`--prometheus-listen-port`" + `), without authentication:

| path | |
|---|---|
`

const debugIntro = `
[Webhooks](webhooks.md) have separate ports.

## The debug port

The debug pages are on 127.0.0.1:9115 in the pod (` + "`--debug-http-addr`" + `). They are not reachable from the network. Use a
port-forward:

` + "```sh" + `
kubectl -n addon-operator port-forward addon-operator-0 9115:9115
curl localhost:9115/queue
` + "```" + `

They show no values and no output of hooks, and they change nothing. They show the number of failures of a task, and that a
module cannot be loaded; the errors are on the debug socket. An address that is not a loopback address is replaced by 127.0.0.1,
with a warning. If the port is in use, the operator logs a warning and starts without the debug pages.

| path | |
|---|---|
`

const webIntro = `
## The web page

The [web page](../web-page.md) is on 127.0.0.1:9116 in the pod (` + "`--web-listen-address`" + `). If the port is in use, or the
certificate cannot be read, the operator logs a warning and starts without the web page. With a certificate
(` + "`--web-tls-cert-file`" + `), requests need a token, and RBAC rules decide who sees and does what. The views are HTML; secrets are
always masked.

| path | |
|---|---|
`

const socketIntro = `
## The debug socket

The [commands](cli.md) send HTTP requests over a unix socket (` + "`--debug-unix-socket`" + `, mode 0600). The socket serves
the routes below, for example:

` + "```sh" + `
curl --unix-socket /var/run/addon-operator/debug.socket http://unix/module/list.json
` + "```" + `

The suffix of a path selects the format: ` + "`.text`, `.yaml` or `.json`" + `. Routes with one fixed format, such as most ` + "`POST`" + `
routes and those of ` + "`render` and `store`" + `, have no suffix. Secrets are masked unless ` + "`?show-secrets=true`" + ` is added. But
the copy of the store that ` + "`/store/snapshot`" + ` returns always contains the secrets. Errors are text, with status 400 for an
invalid request, 404 for a missing object, 409 for a conflict with the current state, 422 if ` + "`/store/check`" + ` finds damage, and
500 for other errors.

| route | command |
|---|---|
`

// routesOfNone describes the routes of the debug socket that routesOf does not have. No command requests these routes,
// or a command requests them only with a flag.
var routesOfNone = map[string]string{
	"/":                         "none: confirms that the operator runs",
	"/graph":                    "none: the modules in their order, with the enabled ones marked, in DOT",
	"/workflow/watch":           "`workflow inspect --watch`",
	"/workflow/timeline/follow": "`timeline --follow`",
	"/workflow/logs/follow":     "`logs --follow`",
	"/queue":                    "none: `queue list --show-empty`; `?output=` selects the format",
	"/debug/pprof/":             "none: profiles of the process, for `go tool pprof`",
	"/addons":                   "none: `addons list` as JSON",
	"/cluster/v2/catalog":       "none: the registered addons of the cluster in the format of the Open Service Broker API",
	"/ns/NAMESPACE/v2/catalog":  "none: the registered addons of a namespace in the same format",
}

const socketOutro = `
| route | parameters |
|---|---|
| ` + "`config` and `values` of a module | `global=true`" + ` |
| ` + "`render` | `debug=true`, `diff=true`" + ` |
| ` + "`/queue/list` | `showEmpty=true`" + ` |
| ` + "`changes` of a module | `from=RUN`, `to=RUN`" + ` |
| ` + "`/hook/HOOK/snapshots` | `binding=NAME`" + ` |
| ` + "`/workflow/inspect`, `/workflow/watch` | `run=N`" + ` |
| ` + "`/workflow/list` | `limit=N`, `grouped=true`" + ` |
| ` + "`/workflow/timeline`, `/workflow/timeline/follow` | `subject=NAME`, `since=TIME`, `limit=N`" + ` |
| ` + "`/workflow/logs`, `/workflow/logs/follow` | `subject=NAME`, `since=TIME`, `limit=N`, `attempt=N`" + ` |
| ` + "`/workflow/why` | `subject=NAME`" + ` |
| ` + "`/store/dump` | `table=NAME`" + ` |
| ` + "`POST /config/set` | in the form: `name`, `value`, `duration`, `reason`, `by`" + ` |
| ` + "`POST /task/TASK/skip` | in the form: `reason`, `by`" + ` |
| ` + "`POST /task/TASK/cancel` | in the form: `reason`, `by`, `skip=true`" + ` |
| ` + "`POST /pause/KIND` | in the form: `name`, `reason`, `by`" + ` |
| ` + "`POST /resume/KIND` | in the form: `name`, `reason`, `by`" + ` |
| ` + "`POST /hook/run` | in the form: `hook`, `binding`, `reason`, `by`" + ` |
| ` + "`POST /module/MODULE/run`, `POST /task/TASK/retry`, `POST /task/TASK/release`, `POST /webhooks/withdraw` | in the form: `reason`, `by`" + ` |
| ` + "`POST /reload` | in the form: `reason`, `by`, `allow-purge`" + ` |
| ` + "`POST /plan.json` | in the form: `module`, `modules-dir`, `global-hooks-dir`, `config-map` (its text), `show-secrets`" + ` |
`

// servedAt describes each path of the port for health and metrics.
var servedAt = map[string]string{
	"/healthz":         "`ok` while the process responds; for the probes of the pod",
	"/readyz":          "status 200 if a converge has ended since the start of the operator and no module is pending, 503 on standby, 500 otherwise. With `--startup=if-changed` and nothing to do, it is 200 from the start. A module is pending while its next run is deferred because its hooks change values at each run, or while its failing run is retried in a queue of its own (`--on-module-failure=continue`); the text names these modules",
	"/status/converge": "`STARTUP_CONVERGE_NOT_STARTED`, `STARTUP_CONVERGE_IN_PROGRESS: N tasks` or `STARTUP_CONVERGE_DONE`; after `STARTUP_CONVERGE_DONE`, a second line with `CONVERGE_IN_PROGRESS: N tasks` or `CONVERGE_WAIT_TASK`. `?output=json` has all five as keys: the values of `STARTUP_CONVERGE_IN_PROGRESS` and `CONVERGE_IN_PROGRESS` are numbers of tasks or null, and the other values are true or false",
	"/metrics":         "[metrics of the operator](metrics.md#metrics-of-the-operator)",
	"/metrics/hooks":   "[metrics of hooks](metrics.md#metrics-that-hooks-make)",
}

// servedForDebugging describes each path in [debugapi.Paths].
var servedForDebugging = map[string]string{
	"/":                   "a page with these paths",
	"/discovery":          "these paths, one per line",
	"/queue":              "all queues; `?output=json` or `yaml`",
	"/queue/list":         "the same without empty queues, unless `?showEmpty=true` is added; a suffix selects the format, as in `/queue/list.json`",
	"/queue/main":         "the main queue in the same formats; `/queue/show?queue=NAME` shows another one",
	"/addons":             "the addons configurations and the registered addons, as JSON",
	"/cluster/v2/catalog": "the registered addons of the cluster in the format of the Open Service Broker API; those of a namespace are at `/ns/NAMESPACE/v2/catalog`",
	"/debug/pprof/":       "profiles of the process, for `go tool pprof`",
}

// servedForBrowsers describes each path in the result of [webui.Paths].
var servedForBrowsers = map[string]string{
	"/":                 "what needs a person, and what the operator does",
	"/modules":          "all modules",
	"/module/{module}":  "one module: why it is in its state, its hooks, its timeline",
	"/runs":             "the newest runs; `?limit=N`, up to 500",
	"/run/{run}":        "one run: its tree of steps, its attempts by time, its graph; `?all=true` leaves no step out",
	"/queues":           "all queues",
	"/queue/{queue...}": "one queue with its tasks",
	"/task/{task}":      "one task: its causes and its output",
	"/hooks":            "all hooks",
	"/hook/{hook...}":   "one hook, as `MODULE/HOOK`: its durations, its last output, its history",
	"/values":           "values of the module in `?module=NAME`, or global values without this parameter, with their origins; `?path=PATH` selects the values below PATH",
	"/values/{module}":  "the same for one module",
	"/releases":         "the Helm releases",
	"/release/{module}": "one release with its objects; `?diff=true` compares it with what the chart renders now",
	"/timeline":         "what happened; `?subject=NAME`, `?since=2h`, `?limit=N`, up to 500",
	"/logs":             "what attempts printed; `?subject=NAME`, `?limit=N`, up to 500",
	"/why":              "the causes of `?subject=NAME`",
	"/events":           "server-sent events: one when the connection is opened, and one after commits of the store",
	"/do/{action...}":   "`POST`: the actions, if `--web-actions` allows them; the rest of the path is that of the debug socket",
	"/sign-in":          "`POST`: checks a token and stores it in a cookie of the browser; only with `--web-tls-cert-file`",
	"/sign-out":         "`POST`: deletes the cookie with the token in the browser; only with `--web-tls-cert-file`",
	"/assets/{file}":    "style sheet, scripts and icon",
}

func httpPage() string {
	var page strings.Builder
	page.WriteString(httpIntro)
	for _, path := range publicPaths {
		fmt.Fprintf(&page, "| `%s` | %s |\n", path, servedAt[path])
	}
	page.WriteString(debugIntro)
	for _, path := range debugapi.Paths {
		fmt.Fprintf(&page, "| `%s` | %s |\n", path, servedForDebugging[path])
	}
	page.WriteString(webIntro)
	for _, path := range webui.Paths() {
		fmt.Fprintf(&page, "| `%s` | %s |\n", path, servedForBrowsers[path])
	}
	page.WriteString(socketIntro)
	root := newRoot()
	for _, group := range root.Commands() {
		if route := routesOf[group.Name()]; route != "" {
			fmt.Fprintf(&page, "| `%s` | `%s` |\n", route, group.Name())
		}
		for _, verb := range group.Commands() {
			if route := routesOf[group.Name()+" "+verb.Name()]; route != "" {
				fmt.Fprintf(&page, "| `%s` | `%s %s` |\n", route, group.Name(), verb.Name())
			}
		}
	}
	for _, route := range slices.Sorted(maps.Keys(routesOfNone)) {
		fmt.Fprintf(&page, "| `%s` | %s |\n", route, routesOfNone[route])
	}
	page.WriteString(socketOutro)
	return page.String()
}

// registered matches the Go code that registers a route of the debug socket.
var registered = regexp.MustCompile(`(?:mux\.HandleFunc|post)\("([^"]+)"`)

// TestRoutesOfThePageAreServedAndThereAreNoOthers compares the routes in the reference page with
// the routes of the debug socket.
func TestRoutesOfThePageAreServedAndThereAreNoOthers(t *testing.T) {
	t.Parallel()
	mux, isMux := (&debugapi.API{}).Routes().(*http.ServeMux)
	if !isMux {
		t.Fatal("the routes are no ServeMux")
	}
	used := map[string]bool{}
	for _, route := range append(slices.Collect(maps.Values(routesOf)), slices.Collect(maps.Keys(routesOfNone))...) {
		method, path, isPost := strings.Cut(route, " ")
		if !isPost {
			method, path = http.MethodGet, route
		}
		_, pattern := mux.Handler(httptest.NewRequest(method, path, http.NoBody))
		if used[pattern] = true; pattern == "" {
			t.Errorf("%s is not served", route)
		}
	}
	for _, file := range []string{"debugapi/api.go", "debugapi/workflow.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range registered.FindAllStringSubmatch(string(text), -1) {
			if !used[found[1]] {
				t.Errorf("%s is served, but is not in the page", found[1])
			}
		}
	}
}

// TestEveryPathOfThePortsIsDescribed compares the described paths with the lists of the paths that the
// ports and the web page serve.
func TestEveryPathOfThePortsIsDescribed(t *testing.T) {
	for _, port := range []struct {
		paths     []string
		described map[string]string
	}{{publicPaths, servedAt}, {debugapi.Paths, servedForDebugging}, {webui.Paths(), servedForBrowsers}} {
		described := slices.Sorted(maps.Keys(port.described))
		served := slices.Sorted(slices.Values(port.paths))
		if d := cmp.Diff(served, described); d != "" {
			t.Errorf("paths (-served +described):\n%s", d)
		}
	}
}

const settingsIntro = `# Settings

<!-- Made from the code by go test ./cmd/addon-operator -run Reference -update. -->

These flags and environment variables configure ` + "`addon-operator start`" + `. A flag has precedence over variables. If a row has
several variables, the first one that is set is used. An empty variable is treated as not set. Booleans can be true, false, yes,
no, on, off, 1 and 0.

| flag | variables | default | |
|---|---|---|---|
`

const unservedIntro = `
## Accepted, without effect

These settings are accepted so that manifests of addon-operator and shell-operator can be used unchanged. The operator warns at
startup of each that is set.

| flag | variable | why |
|---|---|---|
`

const fatalIntro = `
## Refused

Variables of Tiller (` + "`ADDON_OPERATOR_TILLER_…`, `TILLER_MAX_HISTORY`, `TILLER_BIN_PATH`, `HELM2`" + `) are an error at startup, because Helm 2 is
not supported.
`

func settingsPage() string {
	var page strings.Builder
	page.WriteString(settingsIntro)
	var s settings.Settings
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	f.SortFlags = false
	settings.Declare(&s, f)
	f.VisitAll(func(one *pflag.Flag) {
		if one.Hidden {
			return
		}
		usage, variables, _ := strings.Cut(strings.TrimSuffix(one.Usage, "]"), " [$")
		names := strings.Split(variables, ", $")
		fmt.Fprintf(&page, "| `--%s` | `%s` | %s | %s |\n", one.Name, strings.Join(names, "`, `"), shownDefault(one), cell(usage))
	})
	page.WriteString(unservedIntro)
	for _, u := range settings.NotServed {
		name := ""
		if u.Flag != "" {
			name = "`--" + u.Flag + "`"
		}
		fmt.Fprintf(&page, "| %s | `%s` | %s |\n", name, u.Env, cell(u.Why))
	}
	page.WriteString(fatalIntro)
	return page.String()
}
