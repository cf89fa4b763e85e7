package debugapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// sendForm posts a form to the routes of api.
func sendForm(api *API, path string, form url.Values) (status int, text string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	api.Routes().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// actionsOf returns the actions in the store as "verb what, by person: reason", newest first.
func actionsOf(t *testing.T, db *store.DB) (all []string) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		for a, err := range store.ActionsBackwards(tx) {
			if err != nil {
				return err
			}
			all = append(all, strings.TrimSuffix(strings.TrimSpace(a.Verb+" "+a.What)+", by "+a.By+": "+a.Reason, ": "))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWithdrawnWebhooksAreNamedAndTheCommandIsRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deleted []string
		err     error
		status  int
		want    string
		actions []string
	}{
		"some": {
			[]string{"ValidatingWebhookConfiguration a-hooks", "MutatingWebhookConfiguration a-hooks"},
			nil, http.StatusOK,
			"ValidatingWebhookConfiguration a-hooks deleted\nMutatingWebhookConfiguration a-hooks deleted\n",
			[]string{"webhooks withdraw, by somebody: the API server is slow"},
		},
		"none":  {nil, nil, http.StatusOK, "the operator in namespace shop has no webhook configurations\n", []string{"webhooks withdraw, by somebody: the API server is slow"}},
		"error": {nil, errors.New("forbidden"), http.StatusInternalServerError, "forbidden\n", nil},
	} {
		db := storetest.Memory(t)
		api := &API{DB: db, Now: time.Now, Withdraw: func(context.Context) ([]string, string, error) { return c.deleted, "shop", c.err }}
		status, text := sendForm(api, "/webhooks/withdraw", url.Values{"reason": {" the API server is slow\n"}})
		if status != c.status || text != c.want {
			t.Errorf("%s: %d %q, want %d %q", name, status, text, c.status, c.want)
		}
		if diff := cmp.Diff(c.actions, actionsOf(t, db)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnActionThatTheStoreCannotRecordIsStillAnswered(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	api := &API{DB: db, Now: time.Now, Withdraw: func(context.Context) ([]string, string, error) {
		return []string{"one"}, "shop", db.Close()
	}}
	status, text := sendForm(api, "/webhooks/withdraw", nil)
	if status != http.StatusOK || !strings.HasPrefix(text, "one deleted\nthe timeline does not show this command: ") {
		t.Errorf("%d %q", status, text)
	}
}

func TestAPlanGetsTheOptionsOfTheForm(t *testing.T) {
	t.Parallel()
	var got PlanRequest
	var failure error
	api := &API{DB: storetest.Memory(t), Now: time.Now, Plan: func(_ context.Context, r PlanRequest) (*inspect.Plan, error) {
		got = r
		return new(inspect.Plan), failure
	}}
	for name, c := range map[string]struct {
		form url.Values
		want PlanRequest
	}{
		"no options": {nil, PlanRequest{}},
		"all options": {
			url.Values{"modules-dir": {"/m:/n"}, "global-hooks-dir": {"/g"}, "config-map": {"data: {}"}, "module": {"web", "db"}, "show-secrets": {"true"}},
			PlanRequest{ModulesDirs: "/m:/n", GlobalHooksDir: "/g", ConfigMap: []byte("data: {}"), Modules: []string{"web", "db"}, ShowSecrets: true},
		},
		"an empty ConfigMap":              {url.Values{"config-map": {""}}, PlanRequest{ConfigMap: []byte{}}},
		"secrets are shown for true only": {url.Values{"show-secrets": {"yes"}}, PlanRequest{}},
		"an unknown option has no effect": {url.Values{"modules": {"web"}}, PlanRequest{}},
	} {
		got = PlanRequest{}
		status, text := sendForm(api, "/plan.json", c.form)
		if diff := cmp.Diff(c.want, got); status != http.StatusOK || diff != "" || !strings.HasPrefix(text, "{\n") {
			t.Errorf("%s: status %d, %q (-want +got):\n%s", name, status, text, diff)
		}
	}
	if status, text := sendForm(api, "/plan.json?module=in-the-query", nil); status != http.StatusOK || got.Modules != nil {
		t.Errorf("the query is an option: status %d, %q, %+v", status, text, got)
	}
	failure = BadRequest("no module is called %q", "wed")
	if status, text := sendForm(api, "/plan.json", nil); status != http.StatusBadRequest || text != "no module is called \"wed\"\n" {
		t.Errorf("error of a plan: %d %q", status, text)
	}
	r := httptest.NewRequest(http.MethodPost, "/plan.json", strings.NewReader("a=%zz"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if api.Routes().ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), "read the request: ") {
		t.Errorf("a damaged form: %d %q", w.Code, w.Body)
	}
}

// TestParametersAreSetAndListedByRequests changes the log level of the process, so it does not run in parallel.
func TestParametersAreSetAndListedByRequests(t *testing.T) {
	level := zerolog.GlobalLevel()
	t.Cleanup(func() { zerolog.SetGlobalLevel(level) })
	params, err := NewParams(settings.Settings{LogLevel: "info"}, zerolog.Nop(), func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Memory(t)
	api := &API{DB: db, Now: time.Now, Params: params}
	for _, c := range []struct {
		form   url.Values
		status int
		want   string
	}{
		{url.Values{"name": {LogLevel}, "value": {"error"}, "duration": {"10m"}, "by": {"alice"}, "reason": {"noise"}}, http.StatusOK, "log.level is error for 10m0s\n"},
		{url.Values{"name": {LogConfigEvents}, "value": {"true"}}, http.StatusOK, "log.configmap.events is true until the operator ends\n"},
		{url.Values{"name": {LogLevel}, "value": {"error"}, "duration": {"0s"}}, http.StatusBadRequest, "duration must be above 0, such as 10m (got \"0s\")\n"},
		{url.Values{"name": {LogLevel}, "value": {"error"}, "duration": {"-1m"}}, http.StatusBadRequest, "duration must be above 0, such as 10m (got \"-1m\")\n"},
		{url.Values{"name": {LogLevel}, "value": {"error"}, "duration": {"long"}}, http.StatusBadRequest, "duration must be above 0, such as 10m (got \"long\")\n"},
		{url.Values{"name": {"level"}, "value": {"error"}}, http.StatusNotFound, "nothing is called \"level\"; see addon-operator config list\n"},
		{url.Values{"name": {LogLevel}}, http.StatusBadRequest, "log.level is \"\"; it can be debug, info, warn or error\n"},
	} {
		if status, text := sendForm(api, "/config/set", c.form); status != c.status || text != c.want {
			t.Errorf("%v: %d %q, want %d %q", c.form, status, text, c.status, c.want)
		}
	}
	want := []string{"config set log.configmap.events true, by somebody", "config set log.level error 10m, by alice: noise"}
	if diff := cmp.Diff(want, actionsOf(t, db)); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	_, text := ask(api.Routes(), "/config/list")
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Fields(line)[:2])
	}
	if diff := cmp.Diff([][]string{{"NAME", "VALUE"}, {LogLevel, "error"}, {LogConfigEvents, "true"}}, rows); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if zerolog.GlobalLevel() != zerolog.ErrorLevel {
		t.Errorf("the level of the log is %s", zerolog.GlobalLevel())
	}
}

func TestAParameterWithADefaultDurationHasNoneAtItsInitialValue(t *testing.T) {
	level := zerolog.GlobalLevel()
	t.Cleanup(func() { zerolog.SetGlobalLevel(level) })
	p, err := NewParams(settings.Settings{LogLevel: "trace"}, zerolog.Nop(), func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := p.Set(LogLevel, "debug", 0); err != nil || said != "log.level is debug until the operator ends" {
		t.Errorf("%q, error %v", said, err)
	}
	if _, err := NewParams(settings.Settings{LogLevel: "loud"}, zerolog.Nop(), func(bool) {}); err == nil || err.Error() != "log.level: it can be debug, info, warn or error" {
		t.Errorf("an invalid initial value: %v", err)
	}
}

func TestAReloadMayDeleteTheReleasesThatItAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.start()
		w.e.Drain() // no task is claimed after this call
		for _, c := range []struct {
			query, detail string
			want          store.AllowedPurge
		}{
			{"", "", store.AllowedPurge{}},
			{"?allow-purge=1", "up to 1 release may be deleted", store.AllowedPurge{Releases: 1, By: "alice"}},
			{"?allow-purge=12", "up to 12 releases may be deleted", store.AllowedPurge{Releases: 12, By: "alice"}},
		} {
			if status, text := w.post("/reload" + c.query); status != http.StatusOK {
				t.Fatalf("%q: %d %q", c.query, status, text)
			}
			if err := w.db.View(func(tx *store.Tx) error {
				allowed, _, err := store.Load[store.AllowedPurge](tx, store.AllowedPurgeKey())
				allowed.At = time.Time{}
				if allowed != c.want {
					t.Errorf("%q allows %+v, want %+v", c.query, allowed, c.want)
				}
				for run, err := range store.RunsBackwards(tx) {
					if run.Cause.Detail != c.detail || run.Cause.By != "alice" || err != nil {
						t.Errorf("%q: the newest run has the cause %+v (%v), want %q", c.query, run.Cause, err, c.detail)
					}
					break
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestARequestedTickRunsTheScheduleBindingOfTheHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		saveWeb(t, w.db)
		if err := w.db.Update(func(tx *store.Tx) error {
			return errors.Join(
				store.Save(tx, store.HookKey("web", "hooks/one.sh"), store.Hook{}),
				store.Save(tx, store.BindingKey("web", "hooks/one.sh", "daily"), store.Binding{Kind: store.Schedule, Config: []byte(`{"name":"daily","crontab":"0 3 * * *"}`)}),
				store.Save(tx, store.BindingKey("web", "hooks/one.sh", "old"), store.Binding{Kind: store.Schedule, Detached: true, Config: []byte(`{"crontab":"0 3 * * *"}`)}),
			)
		}); err != nil {
			t.Fatal(err)
		}
		w.start()
		for path, want := range map[string]string{
			"/hook/run?hook=web/hooks/one.sh":                  "web/hooks/one.sh daily",
			"/hook/run?hook=web/hooks/ticks.sh&binding=hourly": "web/hooks/ticks.sh hourly",
		} {
			w.since()
			status, text := w.post(path)
			if begins := "hook run of " + want + " requested as run "; status != http.StatusOK || !strings.HasPrefix(text, begins) {
				t.Errorf("%s: %d %q, want %q", path, status, text, begins)
			}
			synctest.Wait()
			if ran := w.since(); !slices.Contains(ran, "module-schedule-event "+want) {
				t.Errorf("%s: ran %q", path, ran)
			}
			if got := actionsOf(t, w.db)[0]; got != "hook run "+want+", by alice" {
				t.Errorf("%s is recorded as %q", path, got)
			}
		}
	})
}

// TestACommandThatDoesNotFitTheStateOfATaskNamesTheState sends commands for tasks of three modules: a task of module
// "bad" has failed, a task of module "waits" is behind it, and a step of module "crashes" is in quarantine.
func TestACommandThatDoesNotFitTheStateOfATaskNamesTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.modules(map[string]bool{"bad": true, "waits": true})
		w.fail("module-run bad", true)
		w.start(startEvent)
		if err := w.db.Update(func(tx *store.Tx) error {
			id := store.ID{Epoch: 1, N: 900}
			return errors.Join(
				w.e.Raise(tx, workflow.Event{On: lifecycle.OnResourcesAbsent, Subject: graph.Subject{Module: "waits"}}),
				store.Save(tx, store.QuarantineKey(id), store.QuarantinedItem{
					ID: id, Graph: lifecycle.Graph.Name, Node: string(lifecycle.ReleaseUpgrade), Subject: graph.Subject{Module: "crashes"}, Queue: workflow.Main, Run: 1, At: tx.Now(), Crashes: 3,
				}))
		}); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			"/task/waits/retry":    `: the task has not failed: it waits behind task 1-\d+ \(\S.*\) in queue main; see addon-operator why 1-\d+`,
			"/task/waits/release":  `: the task is not in quarantine; skip it or, if it has failed, retry it`,
			"/task/waits/cancel":   `: the task is not running; skip it or, if it has failed, retry it`,
			"/task/bad/release":    `: the task is not in quarantine; skip it or, if it has failed, retry it`,
			"/task/crashes/retry":  `: the task is in quarantine; release or skip it`,
			"/task/crashes/cancel": `: the task is in quarantine; release or skip it`,
		} {
			if status, text := w.post(path); status != http.StatusConflict || !regexp.MustCompile(`^task 1-\d+`+want+`\n$`).MatchString(text) {
				t.Errorf("%s: %d %q, want %s", path, status, text, want)
			}
		}
	})
}

func TestATaskIsChangedByItsModuleOrItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.modules(map[string]bool{"good": true, "bad": true})
		w.fail("module-run bad", true)
		w.start(startEvent)
		w.since()
		status, text := w.post("/task/bad/retry?reason=mended")
		if status != http.StatusOK || !strings.HasPrefix(text, "task 1-") || !strings.HasSuffix(text, " is tried again\n") {
			t.Errorf("retry: %d %q", status, text)
		}
		synctest.Wait()
		if ran := w.since(); !slices.Contains(ran, "module-run bad") {
			t.Errorf("after the retry ran %q", ran)
		}
		id := strings.Fields(text)[1]
		if status, text := w.post("/task/" + id + "/cancel"); status != http.StatusConflict || text != "task "+id+": the task is not running; skip it or, if it has failed, retry it\n" {
			t.Errorf("cancel of a task that does not run: %d %q", status, text)
		}
		if status, text := w.post("/task/good/retry"); status != http.StatusNotFound || !strings.HasSuffix(text, "; see addon-operator queue list\n") {
			t.Errorf("retry of a module without a task: %d %q", status, text)
		}
		status, text = w.post("/task/" + id + "/skip?reason=never+mind")
		if status != http.StatusOK || text != "task "+id+" is skipped\n" {
			t.Errorf("skip: %d %q", status, text)
		}
		synctest.Wait()
		if ran := w.since(); !slices.Contains(ran, "module-run good") {
			t.Errorf("after the skip ran %q", ran)
		}
		for i, want := range []string{"task skip", "task retry"} {
			if got := actionsOf(t, w.db)[i]; !strings.HasPrefix(got, want) || !strings.Contains(got, ", by alice: ") {
				t.Errorf("action %d is %q, want %s by alice", i, got, want)
			}
		}
	})
}

func TestTheAdviceForAFanOutThatWaitsIsToSkipItsItems(t *testing.T) {
	t.Parallel()
	err := changeError(store.ID{Epoch: 1, N: 2}, fmt.Errorf("task 1-2: %w", workflow.ErrWaitsForItems))
	if want := "task 1-2: the task waits for its items; skip the items instead"; err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
}

func TestARunningTaskIsCanceledAndNotRetried(t *testing.T) {
	gate := make(gated)
	l := watched(t, gate)
	if status, text := postTo(l, "/task/m/retry"); status != http.StatusConflict || !strings.HasSuffix(text, ": the task is running; wait for its end, or cancel it\n") {
		t.Errorf("retry of a running task: %d %q", status, text)
	}
	stream := watchStream(t, l, "?run=1")
	until(t, stream, inspect.Running)
	status, text := postTo(l, "/task/m/cancel?reason=it+hangs&skip=true")
	if status != http.StatusOK || !strings.HasSuffix(text, " is canceled\n") {
		t.Errorf("cancel: %d %q", status, text)
	}
	if got := actionsOf(t, l.DB)[0]; !strings.Contains(got, ", by alice: ") || !strings.Contains(got, "it hangs") {
		t.Errorf("the command is recorded as %q", got)
	}
}

// scheduled returns a store whose clock shows noon. The hook web/h has a schedule binding for each entry of crontabs,
// which maps the name of a binding to its crontab. The argument last is the time of the last tick of every binding; zero
// if no binding has ticked yet.
func scheduled(t *testing.T, last time.Time, crontabs map[string]string) *store.DB {
	t.Helper()
	return queued(t, func(w *queueWriter) {
		if err := w.db.Update(func(tx *store.Tx) error {
			for name, crontab := range crontabs {
				if err := store.Save(tx, store.BindingKey("web", "h", name), store.Binding{Kind: store.Schedule, Config: []byte(`{"crontab":"` + crontab + `"}`)}); err != nil {
					return err
				}
				if last.IsZero() {
					continue
				}
				if err := store.Save(tx, store.TickKey(graph.Subject{Module: "web", Hook: "h", Binding: name}), last); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAScheduleHasItsLastAndItsNextTick(t *testing.T) {
	t.Parallel()
	at := func(hour, minute, second int) time.Time {
		return time.Date(2026, 3, 1, hour, minute, second, 0, time.UTC)
	}
	for name, c := range map[string]struct {
		crontab string
		last    time.Time
		want    ScheduleLine
	}{
		"on time":                        {"*/5 * * * *", at(11, 58, 0), ScheduleLine{Last: at(11, 58, 0), Next: at(12, 0, 0)}},
		"just late":                      {"59 11 * * *", at(11, 58, 0), ScheduleLine{Last: at(11, 58, 0), Next: at(11, 59, 0).AddDate(0, 0, 1)}},
		"missed":                         {"58 11 * * *", at(11, 0, 0), ScheduleLine{Last: at(11, 0, 0), Missed: at(11, 58, 0), Next: at(11, 58, 0).AddDate(0, 0, 1)}},
		"the first of several missed":    {"0 * * * *", at(8, 30, 0), ScheduleLine{Last: at(8, 30, 0), Missed: at(9, 0, 0), Next: at(13, 0, 0)}},
		"never ticked":                   {"0 * * * *", time.Time{}, ScheduleLine{Next: at(13, 0, 0)}},
		"ticked in the future":           {"0 * * * *", at(20, 0, 0), ScheduleLine{Last: at(20, 0, 0), Next: at(13, 0, 0)}},
		"a crontab that selects no time": {"0 0 30 2 *", at(8, 0, 0), ScheduleLine{Last: at(8, 0, 0), Never: true}},
		"a crontab of a later version":   {"on sundays", at(8, 0, 0), ScheduleLine{Last: at(8, 0, 0), Never: true}},
	} {
		db := scheduled(t, c.last, map[string]string{"b": c.crontab})
		if err := db.View(func(tx *store.Tx) error {
			lines, err := attachedSchedules(tx, store.At(store.Bindings), true)
			c.want.Binding, c.want.Crontab = "b", c.crontab
			if diff := cmp.Diff(map[graph.Subject][]ScheduleLine{{Module: "web", Hook: "h"}: {c.want}}, lines); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMissedTickIsAProblemIfTheNextOneIsFar(t *testing.T) {
	t.Parallel()
	problems := func(last time.Time, crontabs map[string]string) (found []inspect.Problem) {
		t.Helper()
		if err := scheduled(t, last, crontabs).View(func(tx *store.Tx) (err error) {
			found, err = missedTicks(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	last := twelve.Add(-48 * time.Hour)
	var got []string
	for _, p := range problems(last, map[string]string{"quarter": "*/15 * * * *", "night": "0 3 * * *", "hour": "0 * * * *", "evening": "0 20 * * *"}) {
		got = append(got, p.Subject.Binding+": "+strings.Join(p.Command, " ")+", "+p.At.Format(time.RFC3339))
	}
	want := []string{
		"evening: hook run web/h evening, 2026-02-27T20:00:00Z", "hour: hook run web/h hour, 2026-02-27T13:00:00Z", "night: hook run web/h night, 2026-02-28T03:00:00Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems by binding (-want +got):\n%s", diff)
	}
	one := problems(last, map[string]string{"night": "0 3 * * *"})
	problem := inspect.Problem{
		Kind: inspect.KindMissedTick, Subject: graph.Subject{Module: "web", Hook: "h", Binding: "night"}, Object: "crontab 0 3 * * *",
		At: time.Date(2026, 2, 28, 3, 0, 0, 0, time.UTC), Error: `hook web/h missed a tick of its crontab "0 3 * * *", because no operator ran then`,
		Command: []string{"hook", "run", "web/h"},
		Effect: "runs the hook as at the tick. Or wait for the next tick, at " + inspect.Layout{}.Clock(time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)) +
			". With the flag --schedule-missed=once, the operator itself makes up for missed ticks when it starts",
	}
	if diff := cmp.Diff([]inspect.Problem{problem}, one); diff != "" {
		t.Errorf("one binding (-want +got):\n%s", diff)
	}
	if found := problems(twelve.Add(-time.Hour), map[string]string{"night": "0 3 * * *"}); len(found) > 0 {
		t.Errorf("without a missed tick, the problems are %+v", found)
	}
}

func TestWorkIsNamedAsInThePauseItself(t *testing.T) {
	t.Parallel()
	w := pausable(t)
	if status, text := w.post("/pause/all?reason=repair"); status != http.StatusOK {
		t.Fatalf("%d %q", status, text)
	}
	if status, text := w.post("/pause/queue?name=q&reason=repair"); status != http.StatusOK {
		t.Fatalf("%d %q", status, text)
	}
	for path, want := range map[string]string{
		"/pause/all?reason=again":          "all work is paused already, by ",
		"/pause/queue?name=q&reason=again": "queue q is paused already, by ",
		"/pause/queue?name=main&reason=r":  "queue main paused",
		"/resume/queue?name=Q":             `there is no queue "Q"; see addon-operator queue list --show-empty`,
		"/resume/module?name=web":          "module web is not paused; see addon-operator status",
	} {
		if _, text := w.post(path); !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", path, text, want)
		}
	}
	if err := w.db.View(func(tx *store.Tx) error {
		item, err := heldBy(tx, startEvent)
		if item == nil || item.Queue != "" || item.Paused == nil || item.Graph != lifecycle.Graph.Name {
			t.Errorf("a start is held by %+v, want the pause of all work", item)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
