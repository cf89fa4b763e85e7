package debugapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

// stopped returns the routes for the store of a stopped operator, which has module web with hooks.
func stopped(t *testing.T) http.Handler {
	t.Helper()
	db := storetest.Memory(t)
	saveWeb(t, db)
	return (&API{DB: db, Now: time.Now}).Routes()
}

// saveWeb saves the module web with two hooks: hooks/pods.sh, which watches Secrets and Pods, and hooks/ticks.sh, which
// has two schedules. saveWeb also saves the disabled module off with one hook.
func saveWeb(t *testing.T, db *store.DB) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		for key, record := range map[string]any{
			string(store.ModuleKey("web")):                               store.Module{State: store.On, RanInStart: 1, Enabled: true, Order: 20},
			string(store.ModuleKey("off")):                               store.Module{State: store.Off, Order: 10, Why: "disabled because nothing enables it"},
			string(store.HookKey("web", "hooks/pods.sh")):                store.Hook{Config: json.RawMessage(`{"kubernetes":[{},{}],"ordered":{"beforeHelm":10}}`)},
			string(store.HookKey("off", "hooks/pods.sh")):                store.Hook{Config: json.RawMessage(`{"schedule":[{}]}`)},
			string(store.BindingKey("web", "hooks/pods.sh", "secrets")):  store.Binding{Kind: store.Kubernetes, Queue: "main", Config: json.RawMessage(`{"kind":"Secret"}`)},
			string(store.BindingKey("web", "hooks/pods.sh", "pods")):     store.Binding{Kind: store.Kubernetes, Queue: "pods", Config: json.RawMessage(`{"kind":"Pod"}`)},
			string(store.BindingKey("web", "hooks/ticks.sh", "nightly")): store.Binding{Kind: store.Schedule, Config: json.RawMessage(`{"crontab":"0 3 * * *"}`)},
			string(store.BindingKey("web", "hooks/ticks.sh", "hourly")):  store.Binding{Kind: store.Schedule, Config: json.RawMessage(`{"crontab":"0 * * * *"}`)},
			string(store.HookKey("web", "hooks/ticks.sh")):               store.Hook{Config: json.RawMessage(`{"schedule":[{},{}]}`)},
		} {
			if err := store.Save(tx, store.Key(key), record); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARequestThatCannotBeAnsweredSaysWhatToAskFor(t *testing.T) {
	t.Parallel()
	const (
		missing  = http.StatusNotFound
		bad      = http.StatusBadRequest
		conflict = http.StatusConflict
	)
	h := stopped(t)
	for request, c := range map[string]struct {
		status int
		want   string
	}{
		"GET /hook/lists":                            {missing, "there is no /hook/lists: ask for /hook/list, or /hook/NAME/snapshots"},
		"GET /hook/hooks/nothing.sh/snapshots":       {missing, `no hook is called "hooks/nothing.sh"; see addon-operator hook list`},
		"GET /hook/web/hooks/pods.sh/snapshots":      {conflict, "snapshots are in the memory of a running operator and not in its store: ask a running operator, and leave --store out"},
		"GET /module/lists":                          {missing, "there is no /module/lists: ask for /module/list"},
		"GET /module/wed/values":                     {missing, `no module is called "wed"; see addon-operator module list`},
		"GET /module/web/render":                     {conflict, "a chart is rendered for the cluster of a running operator: ask a running operator, and leave --store out"},
		"GET /module/web/value":                      {missing, `"value" is not known here: ask for values, config, patches, origins, changes or snapshots`},
		"GET /module/web/changes?from=one":           {bad, `from must be a number (got "one")`},
		"GET /module/web/changes?to=-1":              {bad, `to must be a number (got "-1")`},
		"GET /module/web/changes?from=9":             {missing, "run 9: "},
		"GET /module/list.xml":                       {bad, `format "xml" is not served here: ask for json, yaml or text`},
		"GET /global/value":                          {missing, `"value" is not known here`},
		"GET /graph?format=png":                      {bad, `format "png" is not served: ask for format=text, which is DOT`},
		"GET /queue/lists":                           {missing, "there is no /queue/lists: ask for /queue/list, /queue/main or /queue/show?queue=NAME"},
		"GET /queue/show?queue=side":                 {missing, `no queue is called "side"; see addon-operator queue list --show-empty`},
		"GET /workflow/lists":                        {missing, "there is no /workflow/lists: ask for inspect, list, logs, timeline, why or watch"},
		"GET /workflow/inspect":                      {missing, "nothing has begun yet"},
		"GET /workflow/inspect?run=7":                {missing, "run 7: "},
		"GET /workflow/inspect?run=seven":            {bad, `run must be a number (got "seven")`},
		"GET /workflow/list?limit=-5":                {bad, `limit must be a number (got "-5")`},
		"GET /workflow/timeline?since=yesterday":     {bad, `since must be a time such as 2006-01-02T15:04:05Z (got "yesterday")`},
		"GET /workflow/logs?since=1h":                {bad, `since must be a time such as 2006-01-02T15:04:05Z (got "1h")`},
		"GET /workflow/logs?attempt=last":            {bad, `attempt must be a number (got "last")`},
		"GET /workflow/timeline/follow?limit=x":      {bad, `limit must be a number (got "x")`},
		"GET /workflow/why":                          {bad, "subject is missing: name a module, a hook, an addons configuration, a queue, a task or a run"},
		"GET /workflow/why?subject=+":                {bad, "subject is missing"},
		"GET /workflow/why?subject=nothing":          {missing, `the store has nothing about the subject "nothing": name a module`},
		"GET /store/dump?table=secrets":              {bad, "; the tables are: meta, "},
		"GET /config/lists":                          {missing, "there is no /config/lists: ask for /config/list"},
		"GET /config/list":                           {conflict, "parameters are in the memory of a running operator"},
		"POST /config/set?name=log.level&value=info": {conflict, "parameters are in the memory of a running operator"},
		"POST /plan.json":                            {conflict, "no operator runs: start it, and leave --store out"},
		"POST /webhooks/withdraw":                    {conflict, "no operator runs: start it, and leave --store out"},
		"POST /reload?allow-purge=all":               {bad, `allow-purge must be a number of releases above 0 (got "all")`},
		"POST /reload?allow-purge=0":                 {bad, `allow-purge must be a number of releases above 0 (got "0")`},
		"POST /task/1-2/retry":                       {conflict, "tasks are changed by a running operator only: start it, and leave --store out"},
		"POST /task/1-2/release":                     {conflict, "tasks are changed by a running operator only"},
		"POST /task/1-2/skip":                        {bad, "a skip needs a reason, which is stored in the history: add --reason TEXT"},
		"POST /task/1-2/skip?reason=+":               {bad, "a skip needs a reason"},
		"POST /task/1-2/cancel?skip=true":            {bad, "a skip needs a reason"},
		"POST /task/1-2/cancel":                      {conflict, "tasks are changed by a running operator only"},
	} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", request, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestARunningOperatorSaysWhyATaskCannotBeChanged(t *testing.T) {
	gate := make(gated)
	l := watched(t, gate)
	saveWeb(t, l.DB)
	h := l.Routes()
	for path, c := range map[string]struct {
		status int
		want   string
	}{
		"/task/9-99/retry":                                 {http.StatusNotFound, "; see addon-operator queue list"},
		"/task/nothing/cancel":                             {http.StatusNotFound, "; see addon-operator queue list"},
		"/hook/run?hook=web/hooks/nothing.sh":              {http.StatusNotFound, `there is no hook "web/hooks/nothing.sh"`},
		"/hook/run?hook=web/hooks/pods.sh":                 {http.StatusConflict, "hook web/hooks/pods.sh has no schedule that is attached, so it is not run"},
		"/hook/run?hook=web/hooks/ticks.sh":                {http.StatusBadRequest, `hook web/hooks/ticks.sh has several schedules, name one: "hourly", "nightly"`},
		"/hook/run?hook=web/hooks/ticks.sh&binding=weekly": {http.StatusNotFound, `hook web/hooks/ticks.sh has no schedule "weekly", only "hourly", "nightly"`},
		"/module/off/run":                                  {http.StatusConflict, "module off is not enabled (disabled because nothing enables it), so it is not run"},
		"/module/wed/run":                                  {http.StatusNotFound, `no module is called "wed"; see addon-operator module list, and run addon-operator reload if its directory is new`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, http.NoBody))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", path, w.Code, w.Body, c.status, c.want)
		}
	}
}

// TestTheDebugPortShowsNoErrorsAndServesThisHostOnly stores failed tasks whose error quotes the output of a hook. The
// debug socket must show the error, and the debug port must not. The port must reject requests for other host names.
func TestTheDebugPortShowsNoErrorsAndServesThisHostOnly(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for _, queue := range []string{"main", "side", ""} {
			w.add(func(_ *store.Tx, task *store.Task) {
				task.Failed = &store.Failure{Count: 2, Error: "curl --user admin:hunter2: exit status 22"}
				if task.Queue = queue; queue == "" {
					task.Queue, task.Slot, task.Due = "side", 0, time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)
				}
			})
		}
	})
	api := &API{DB: db, Now: time.Now}
	for _, path := range []string{"/queue", "/queue/list", "/queue/list.json", "/queue/main", "/queue/show?queue=side"} {
		status, port := ask(api.Pages(), path)
		if status != http.StatusOK || strings.Contains(port, "hunter2") || !strings.Contains(port, "failures 2") {
			t.Errorf("port, %s: status %d, the task is not shown without its error:\n%s", path, status, port)
		}
		if _, socket := ask(api.Routes(), path); !strings.Contains(socket, "hunter2") {
			t.Errorf("socket, %s: the error is not shown:\n%s", path, socket)
		}
	}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:9652": 200, "127.0.0.1:9652": 200, "127.0.0.2": 200, "[::1]:9652": 200, "[::1]": 200,
		"addon-operator.evil.example.com:9652": 403, "10.0.0.1": 403, "localhost.evil.example.com": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/discovery", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		api.Pages().ServeHTTP(w, r)
		if w.Code != want || (want == 200) != strings.Contains(w.Body.String(), "/queue/main\n") {
			t.Errorf("host %q: status %d, want %d:\n%s", host, w.Code, want, w.Body)
		}
	}
	for _, path := range []string{"/store/dump", "/module/list", "/workflow/logs", "/hook/list"} {
		if status, _ := ask(api.Pages(), path); status != http.StatusNotFound {
			t.Errorf("the port serves %s: status %d", path, status)
		}
	}
}

// TestTheDebugPortShowsNoErrorsOfModulesThatHoldTasks holds tasks of a module that cannot be loaded, because one of its
// hooks fails when it is asked for its configuration. The error quotes the output of the hook. The debug socket must
// show the error, and the debug port must not.
func TestTheDebugPortShowsNoErrorsOfModulesThatHoldTasks(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		for i := range fewEvents + 1 { // enough events for a group; the pages also list them one by one
			w.event("pods", i, func(task *store.Task) { task.Lane, task.Slot = store.Reactions, 0 })
		}
	})
	const why = "module web cannot be loaded: hooks/pods.sh --config: exit status 1: curl --user admin:hunter2"
	if err := db.Update(func(tx *store.Tx) error {
		lane := store.Lane{LaneKey: store.LaneKey{Queue: "side", Module: "web", Hook: "hooks/pods.sh", Kind: store.Reactions}}
		lane.Tasks, lane.Reason = fewEvents+1, store.Reason{Kind: store.AwaitsStart, Detail: why}
		return store.SaveLane(tx, lane)
	}); err != nil {
		t.Fatal(err)
	}
	api := &API{DB: db, Now: time.Now}
	for _, path := range []string{"/queue", "/queue?output=json", "/queue/list", "/queue/list.json", "/queue/list.yaml"} {
		status, port := ask(api.Pages(), path)
		if status != http.StatusOK || strings.Contains(port, "hunter2") || !strings.Contains(port, "held: module web cannot be loaded") {
			t.Errorf("port, %s: status %d, the reason is not shown without its error:\n%s", path, status, port)
		}
		// YAML wraps long lines.
		if _, socket := ask(api.Routes(), path); !strings.Contains(strings.Join(strings.Fields(socket), " "), why) {
			t.Errorf("socket, %s: the error is not shown:\n%s", path, socket)
		}
	}
}

func TestADumpMasksSecretsUnlessTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	saveWeb(t, db)
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.SavedKey("web"), []byte(`[{"patch":"hunter2"}]`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h := (&API{DB: db, Now: time.Now}).Routes()
	for path, c := range map[string]struct {
		secrets bool
		tables  []string // the tables in the wanted dump; nil means more than one table
	}{
		"/store/dump":                                                 {false, nil},
		"/store/dump?show-secrets=true":                               {true, nil},
		"/store/dump?table=values":                                    {false, []string{"values"}},
		"/store/dump?table=values&show-secrets=true":                  {true, []string{"values"}},
		"/store/dump?table=values&table=modules":                      {false, []string{"modules", "values"}},
		"/store/dump?table=modules&show-secrets=true":                 {false, []string{"modules"}},
		"/store/dump?table=values&table=modules&show-secrets=perhaps": {false, []string{"modules", "values"}},
	} {
		status, text := ask(h, path)
		var tables []string
		for line := range strings.Lines(text) {
			var row struct {
				Table string `json:"table"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%s: line %q: %v", path, line, err)
			}
			if !slices.Contains(tables, row.Table) {
				tables = append(tables, row.Table)
			}
		}
		slices.Sort(tables)
		if status != http.StatusOK || strings.Contains(text, "hunter2") != c.secrets || c.tables != nil && !slices.Equal(tables, c.tables) || c.tables == nil && len(tables) < 4 {
			t.Errorf("%s: status %d, tables %q, want %q, secrets %t:\n%s", path, status, tables, c.tables, c.secrets, text)
		}
	}
}

// TestSnapshotsAreShownWithoutSecrets requests the snapshot of a binding for Secrets, and the snapshot of a binding
// whose filter result has a token. The responses must not contain the secrets.
func TestSnapshotsAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	saveWeb(t, db)
	h := (&API{DB: db, Now: time.Now, Snapshot: func(s graph.Subject) []*kube.Object {
		switch {
		case s.Module != "web":
			return nil
		case s.Binding == "secrets":
			return []*kube.Object{{Namespace: "shop", Name: "db", Raw: json.RawMessage(`{"kind":"Secret","data":{"plain":"aHVudGVyMg=="},"metadata":{"name":"db"}}`)}}
		default:
			return []*kube.Object{{Name: "web-0", FilterResult: json.RawMessage(`{"token":"hunter3","node":"n1"}`)}}
		}
	}}).Routes()
	for path, c := range map[string]struct {
		wants, lacks []string
	}{
		"/hook/web/hooks/pods.sh/snapshots.json":                   {[]string{`"name": "db"`, `"namespace": "shop"`, `"node": "n1"`, "(redacted "}, []string{"aHVudGVyMg==", "hunter3"}},
		"/hook/hooks/pods.sh/snapshots.json":                       {[]string{`"web": [`, `"off": []`}, []string{"aHVudGVyMg==", "hunter3"}},
		"/hook/web/hooks/pods.sh/snapshots.json?binding=pods":      {[]string{`"count": 1`, "web-0"}, []string{`"db"`, "hunter3"}},
		"/hook/web/hooks/pods.sh/snapshots.json?binding=nothing":   {[]string{`hook web/hooks/pods.sh has no kubernetes binding "nothing"; see addon-operator hook list`}, []string{"hunter3"}},
		"/hook/web/hooks/pods.sh/snapshots.json?show-secrets=true": {[]string{"aHVudGVyMg==", "hunter3"}, []string{"redacted"}},
		"/module/web/snapshots":                                    {[]string{"hooks/pods.sh:", "node: n1"}, []string{"aHVudGVyMg==", "hunter3"}},
	} {
		_, text := ask(h, path)
		for _, want := range c.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, text)
			}
		}
		for _, lacks := range c.lacks {
			if strings.Contains(text, lacks) {
				t.Errorf("%s has %q:\n%s", path, lacks, text)
			}
		}
	}
}

func TestListsAreInTheOrderInWhichModulesRun(t *testing.T) {
	t.Parallel()
	h := stopped(t)
	for path, wants := range map[string][]string{
		"/hook/list":               {"MODULE", "off     hooks/pods.sh   -", "schedule×1", "web     hooks/pods.sh   -", "beforeHelm kubernetes×2", "web     hooks/ticks.sh", "schedule×2"},
		"/module/list":             {"MODULE", "off     false    off    -         disabled because nothing enables it", "web     true     on"},
		"/graph":                   {"digraph modules {", `"off" [label="10 off\ndisabled because nothing enables it", fillcolor=lightgrey]`, `"web" [label="20 web\n", fillcolor=palegreen]`, `"off" -> "web"`, "}"},
		"/module/resource-monitor": {"web: No monitor"},
	} {
		status, text := ask(h, path)
		rest := text
		for _, want := range wants {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: status %d, %q is missing or not in its order:\n%s", path, status, want, text)
				break
			}
			rest = after
		}
	}
}
