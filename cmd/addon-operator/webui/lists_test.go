package webui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	sections "addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// absent checks that a view has none of the texts.
func absent(t *testing.T, view string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(view, text) {
			t.Errorf("%q is in the view:\n%s", text, view)
		}
	}
}

// summaries returns n runs, newest first, as answers for /workflow/list.
func summaries(n int) answers {
	runs := []inspect.RunGroup{}
	for id := n; id > 0; id-- {
		runs = append(runs, inspect.RunGroup{Summary: inspect.Summary{ID: uint64(id), Trigger: "reload", State: inspect.Done, Began: began, Ended: began.Add(time.Second)}, Count: 1})
	}
	return answers{"/workflow/list": runs}
}

func TestAListOfRunsLeadsToMoreUntilItHasAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs        int
		path        string
		more, other string // the expected links; empty if no link is expected
	}{
		{20, "/runs", "/runs?limit=80", "/runs?all=true&amp;limit=20"},
		{19, "/runs", "", "/runs?all=true&amp;limit=20"},
		{200, "/runs?limit=200", "/runs?limit=500", "/runs?all=true&amp;limit=200"},
		{500, "/runs?limit=500", "", "/runs?all=true&amp;limit=500"},
		{80, "/runs?limit=80&all=true", "/runs?all=true&amp;limit=320", "/runs?limit=80"},
	} {
		view := summaries(c.runs).view(t, c.path, false)
		inOrder(t, view, `<p><a href="`+c.other+`">`)
		if want := `<p><a href="` + c.more + `">More runs</a></p>`; strings.Contains(view, "More runs") != (c.more != "") || c.more != "" && !strings.Contains(view, want) {
			t.Errorf("%s of %d runs: the view lacks, or should lack, %s", c.path, c.runs, want)
		}
	}
}

func TestGroupsOfRunsHaveNoDurationAndSingleRunsHaveOne(t *testing.T) {
	t.Parallel()
	group := inspect.RunGroup{
		Summary: inspect.Summary{ID: 9, Trigger: "module-kubernetes-event", Subject: "web/hooks/pods.sh pods", State: inspect.Done, Began: began.Add(time.Hour), Ended: began.Add(time.Hour + 4*time.Second)},
		Count:   7, First: 3, FirstBegan: began, More: true, Failures: 2,
	}
	a := answers{"/workflow/list": []inspect.RunGroup{group}}
	view := a.view(t, "/runs", false)
	inOrder(t, view, "at least 7 runs, 2 failed attempts, of web/hooks/pods.sh pods from 3, ", "Show each run")
	absent(t, view, `data-label="took"`, "4.0s")
	inOrder(t, a.view(t, "/runs?all=true", false), "module-kubernetes-event: web/hooks/pods.sh pods", `data-label="took">4.0s</td>`, "Group the runs of a binding")
	inOrder(t, answers{"/workflow/list": []inspect.RunGroup{}}.view(t, "/runs", false), "There are no runs yet.")
}

func TestATimelineLeadsToOlderEntriesUntilTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path  string
		more  bool
		older string
	}{
		{"/timeline", true, "/timeline?limit=200"},
		{"/timeline", false, ""},
		{"/timeline?limit=499", true, "/timeline?limit=500"},
		{"/timeline?limit=500", true, ""},
		{"/timeline?subject=web&since=2h&limit=10", true, "/timeline?limit=40&amp;since=2h&amp;subject=web"},
	} {
		view := answers{"/workflow/timeline": inspect.Timeline{More: c.more}}.view(t, c.path, false)
		if want := `<a href="` + c.older + `">Older entries</a>`; strings.Contains(view, "Older entries") != (c.older != "") || c.older != "" && !strings.Contains(view, want) {
			t.Errorf("%s, more %t: the view lacks, or should lack, %s", c.path, c.more, want)
		}
	}
	inOrder(t, answers{}.view(t, "/timeline?subject=web&since=2h", false),
		`name="subject" value="web"`, `name="since" value="2h"`, "The history has no entries about web since 2h.", "<code>addon-operator timeline web -n 50 --since 2h</code>")
}

func TestAQueueIsCutToItsFirstTasksInTheListOfQueues(t *testing.T) {
	t.Parallel()
	dump := debugapi.QueueDump{Name: "main", TasksCount: 9, Status: "waits"}
	for i := range 7 {
		dump.Tasks = append(dump.Tasks, debugapi.TaskLine{Index: i + 1, ID: "1-" + strconv.Itoa(i+1), Description: fmt.Sprint("step-", i+1), State: "waits"})
	}
	short := debugapi.QueueDump{Name: "a/b", TasksCount: 1, Status: "runs for 1s", Tasks: dump.Tasks[:1]}
	list := answers{"/queue/list": debugapi.QueueList{
		Active: []debugapi.QueueDump{dump, short}, Empty: []debugapi.QueueDump{{Name: "c d"}, {Name: "e"}},
		Later: []debugapi.TaskLine{{Index: 1, ID: "1-90", Description: "deferred", State: "due in 5s"}},
	}}
	view := list.view(t, "/queues", false)
	inOrder(t, view, `<a href="/queue/main">main</a> <small>9 tasks</small>`, "step-5", `<a href="/queue/main">4 more</a>`, `<a href="/queue/a/b">a/b</a> <small>1 task</small>`, "step-1",
		"Later, in no queue yet", "due in 5s", "Empty queues", `<a href="/queue/c%20d">c d</a>, <a href="/queue/e">e</a>`)
	absent(t, view, "step-6", `<a href="/queue/a/b">0 more`)
	dump.More = 2
	inOrder(t, answers{"/queue/show": dump}.view(t, "/queue/main", false), "9 tasks: ", "step-6", "step-7", "and 2 more")
	inOrder(t, answers{"/queue/list": debugapi.QueueList{}}.view(t, "/queues", false), "no pending tasks in any queue")
}

func TestTheOverviewCountsModulesAndListsThoseThatAreNeitherOnNorOff(t *testing.T) {
	t.Parallel()
	status := inspect.Status{}
	for name, state := range map[string]inspect.ModuleState{
		"a": inspect.ModuleOn, "b": inspect.ModuleOn, "c": inspect.ModuleOff, "d": inspect.ModuleOff, "e": inspect.ModuleFailing, "f": inspect.ModuleOn,
	} {
		status.Modules = append(status.Modules, inspect.StatusModule{Name: name, ModuleStatus: inspect.ModuleStatus{State: state, Reason: "because of " + name}})
	}
	view := answers{"/status": status}.view(t, "/", false)
	inOrder(t, view, "<p>3 on, 2 off, 1 failing – ", `<a href="/module/e">e</a>`, "because of e")
	absent(t, view, "because of a", "because of c")
}

func TestTheOverviewListsBlockedQueuesOfARunningOperatorOnly(t *testing.T) {
	t.Parallel()
	status := inspect.Status{Live: true, Queues: []inspect.StatusQueue{
		{Name: "moving", Tasks: 1}, {Name: "next", Tasks: 1, Wait: &inspect.Wait{For: inspect.ForWorker}}, {Name: "stuck", Tasks: 3, Wait: &inspect.Wait{For: inspect.ForPause}},
	}}
	view := answers{"/status": status}.view(t, "/", false)
	inOrder(t, view, `<a href="/queue/stuck">stuck</a>`)
	absent(t, view, "/queue/moving", "/queue/next")
	status.Live = false
	absent(t, answers{"/status": status}.view(t, "/", false), "/queue/stuck")
}

func TestTheOverviewDescribesTheStoreAndItsDisk(t *testing.T) {
	t.Parallel()
	free := uint64(3 << 30)
	for want, operator := range map[string]inspect.StatusOperator{
		"<dd>/s.db</dd>":                                  {Store: "/s.db"},
		"<dd>/s.db, 2.0 MiB</dd>":                         {Store: "/s.db", StoreBytes: 2 << 20},
		"<dd>/s.db, 3.0 GiB free on its disk</dd>":        {Store: "/s.db", FreeBytes: &free},
		"<dd>/s.db, 512 B, 3.0 GiB free on its disk</dd>": {Store: "/s.db", StoreBytes: 512, FreeBytes: &free},
	} {
		inOrder(t, answers{"/status": inspect.Status{Operator: operator}}.view(t, "/", false), "<dt>store</dt>"+want)
	}
}

// explained returns the answers of a debug API that the view of the values of module web requests.
func explained(values ...sections.LayerValue) answers {
	return answers{"/module/list": map[string]any{"modules": []any{map[string]any{"name": "web"}, map[string]any{"name": "my-db"}}}, "/module/web/origins": values}
}

func TestAValueIsShownWithTheOnesThatItOverrides(t *testing.T) {
	t.Parallel()
	view := explained(
		sections.LayerValue{Path: "/web/port", Value: 8080, Layer: sections.HookLayer, By: "web/hooks/port.sh", Origin: sections.Origin{At: began, Outdated: true}},
		sections.LayerValue{Path: "/web/port", Value: 81, Overridden: true, Layer: sections.ConfigMapLayer},
		sections.LayerValue{Path: "/web/port", Value: 80, Overridden: true, Layer: sections.FileLayer, By: "modules/web/values.yaml"},
		sections.LayerValue{Path: "/web/size", Value: 1, Layer: sections.FileLayer, By: "modules/web/values.yaml"},
	).view(t, "/values/web", false)
	inOrder(t, view, "<code>/web/port</code>", "<code>8080</code>", "web/hooks/port.sh", "(its earlier code)", "overrides <code>81</code>", "overrides <code>80</code>", "<code>/web/size</code>", "<code>1</code>")
	if rows := strings.Count(view, `<tr><th scope="row">`); rows != 2 {
		t.Errorf("%d rows, want 2:\n%s", rows, view)
	}
}

func TestAnOverriddenValueWithoutOneThatOverridesItHasItsOwnRow(t *testing.T) {
	t.Parallel()
	view := explained(
		sections.LayerValue{Path: "/web/a", Value: 1, Layer: sections.FileLayer},
		sections.LayerValue{Path: "/web/a/b", Value: 2, Overridden: true, Layer: sections.FileLayer},
	).view(t, "/values/web", false)
	inOrder(t, view, "<code>/web/a</code>", "<code>/web/a/b</code>")
	absent(t, view, "overrides <code>2</code>")
}

func TestAPathSelectsTheValuesBelowIt(t *testing.T) {
	t.Parallel()
	a := explained(
		sections.LayerValue{Path: "/web/image/name", Value: "nginx", Layer: sections.FileLayer},
		sections.LayerValue{Path: "/web/image/tag", Value: "1.0", Layer: sections.FileLayer},
		sections.LayerValue{Path: "/web/imageTag", Value: "2.0", Layer: sections.FileLayer},
	)
	view := a.view(t, "/values/web?path=+image+", false)
	inOrder(t, view, "/web/image/name", "/web/image/tag", "<code>addon-operator values explain web image</code>")
	absent(t, view, "/web/imageTag")
	inOrder(t, a.view(t, "/values/web?path=none", false), "There are no values at none.")
	inOrder(t, a.view(t, "/values?module=web", false), "<option selected>web</option>", "/web/imageTag")
}

func TestValuesBeyondTheLimitAreCounted(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{300: "", 301: "1 more value;", 305: "5 more values;"} {
		var values []sections.LayerValue
		for i := range n {
			values = append(values, sections.LayerValue{Path: fmt.Sprintf("/web/v%03d", i), Value: i, Layer: sections.FileLayer})
		}
		view := explained(values...).view(t, "/values/web", false)
		if strings.Contains(view, "more value") != (want != "") || !strings.Contains(view, want) || strings.Count(view, `<tr><th scope="row">`) != 300 {
			t.Errorf("%d values: %d rows, want 300 and %q", n, strings.Count(view, `<tr><th scope="row">`), want)
		}
	}
}

func TestOnlyModulesWithAReleaseAreInTheListOfReleases(t *testing.T) {
	t.Parallel()
	a := answers{
		"/module/list":             map[string]any{"modules": []any{map[string]any{"name": "web", "revision": 4, "state": "on"}, map[string]any{"name": "db", "state": "off"}}},
		"/module/resource-monitor": map[string]any{"web": []string{"n/Service/web", "ClusterRole/web"}, "db": "No monitor"},
	}
	view := a.view(t, "/releases", false)
	inOrder(t, view, `<a href="/release/web">web</a>`, ">4<", ">2<")
	absent(t, view, "/release/db")
	inOrder(t, a.view(t, "/release/web", false), "Revision 4 of", "<code>n/Service/web</code>", "<code>ClusterRole/web</code>")
	inOrder(t, a.view(t, "/release/db", false), "Module db</a> has no release.", "<h2 id=\"objects\">Objects</h2><p>none</p>")
}

func TestARunShowsTheFixOfItsOwnProblems(t *testing.T) {
	t.Parallel()
	task := store.ID{Epoch: 1, N: 19}
	problem := inspect.Problem{Kind: inspect.KindFailing, Run: 3, Task: task, Error: "quota exceeded", Fix: "read the error"}
	a := answers{
		"/workflow/inspect": inspect.Run{ID: 3, Problems: []inspect.Problem{problem, {Kind: inspect.KindFailing, Run: 4, Error: "of another run"}, {Kind: inspect.KindPaused, Error: "paused"}}},
		"/diagnosis": inspect.Diagnosis{Findings: []inspect.Finding{
			{Fix: "mend the other run", Evidence: []inspect.CauseStep{{Run: 4, Task: task}}},
			{Evidence: []inspect.CauseStep{{Run: 3, Task: task}}},
			{Fix: "raise the quota", Evidence: []inspect.CauseStep{{Run: 2}, {Run: 3, Task: task}}},
		}},
	}
	view := a.view(t, "/run/3", false)
	inOrder(t, view, "quota exceeded", "<strong>Fix:</strong> raise the quota", `<a href="/task/1-19">Task 1-19</a>`, `<a href="/">2 other problems</a>`)
	absent(t, view, "of another run", "mend the other run", "read the error")
	a["/diagnosis"] = inspect.Diagnosis{}
	inOrder(t, a.view(t, "/run/3", false), "<strong>Fix:</strong> read the error")
}

func TestATaskHasTheButtonsOfItsState(t *testing.T) {
	t.Parallel()
	task := store.ID{Epoch: 1, N: 19}
	for name, c := range map[string]struct {
		status  inspect.Status
		buttons []string
	}{
		"an ended task":  {inspect.Status{}, nil},
		"a running task": {inspect.Status{Running: []inspect.StatusTask{{Ref: inspect.Ref{Task: task}}, {Ref: inspect.Ref{Task: store.ID{Epoch: 1, N: 20}}}}}, []string{"cancel"}},
		"a failing task": {inspect.Status{Problems: []inspect.Problem{{Kind: inspect.KindFailing, Task: task}}}, []string{"retry", "skip"}},
		"one that failed and runs again": {
			inspect.Status{Running: []inspect.StatusTask{{Ref: inspect.Ref{Task: task}}}, Problems: []inspect.Problem{{Kind: inspect.KindFailing, Task: task}}}, []string{"retry", "cancel", "skip"},
		},
		"one in quarantine":   {inspect.Status{Problems: []inspect.Problem{{Kind: inspect.KindQuarantined, Task: task}}}, []string{"release", "skip"}},
		"a slow task":         {inspect.Status{Problems: []inspect.Problem{{Kind: inspect.KindSlow, Task: task}}}, nil},
		"the task of another": {inspect.Status{Problems: []inspect.Problem{{Kind: inspect.KindFailing, Task: store.ID{Epoch: 11, N: 9}}}}, nil},
	} {
		view := answers{"/status": c.status}.view(t, "/task/1-19", true)
		var want []string
		for _, button := range c.buttons {
			want = append(want, `action="/do/task/1-19/`+button+`"`)
		}
		inOrder(t, view, want...)
		if n := strings.Count(view, `action="/do/`); n != len(want) {
			t.Errorf("%s: %d buttons, want %d", name, n, len(want))
		}
	}
}

func TestAFormThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	w := newFixture(t, true)
	status, body := w.post("/do/reload", url.Values{"by": {"alice"}, "reason": {strings.Repeat("x", 64<<10)}})
	if status != http.StatusBadRequest || !strings.Contains(body, "the form cannot be read: ") {
		t.Errorf("status %d: %s", status, body)
	}
	if all := w.actions(); len(all) > 0 {
		t.Errorf("actions were taken: %+v", all)
	}
}
