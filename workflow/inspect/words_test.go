package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
)

var wordsTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestCauseOfARunNamesTheObjectItsWriterAndThePerson(t *testing.T) {
	t.Parallel()
	const own = ", the operator itself or a patch of one of its hooks"
	for name, test := range map[string]struct {
		cause store.Cause
		want  string
	}{
		"nothing":                       {store.Cause{}, ""},
		"an object":                     {store.Cause{Object: "Pod shop/web-1"}, "Pod shop/web-1"},
		"an object and its event":       {store.Cause{Object: "Pod shop/web-1", Event: "Added"}, "Pod shop/web-1 added"},
		"an object and its version":     {store.Cause{Object: "Pod shop/web-1", Event: "Modified", ResourceVersion: "47"}, "Pod shop/web-1 modified (resourceVersion 47)"},
		"a version without an object":   {store.Cause{ResourceVersion: "47"}, ""},
		"a field manager":               {store.Cause{Object: "ConfigMap a/b", Event: "Modified", Manager: "kubectl-edit"}, "ConfigMap a/b modified, field manager kubectl-edit"},
		"the operator":                  {store.Cause{Manager: "addon-operator"}, "field manager addon-operator" + own},
		"the operator in a subresource": {store.Cause{Manager: "addon-operator (status)"}, "field manager addon-operator (status)" + own},
		"the operator or another":       {store.Cause{Manager: "addon-operator (a) or helm"}, "field manager addon-operator (a) or helm"},
		"a longer name":                 {store.Cause{Manager: "addon-operator-2"}, "field manager addon-operator-2"},
		"a person with a reason":        {store.Cause{Detail: "new images", By: "ann"}, "new images, by ann"},
	} {
		w := Run{Cause: test.cause}
		if got := w.CauseText(); got != test.want {
			t.Errorf("%s: the cause is %q, want %q", name, got, test.want)
		}
	}
}

func TestTriggerOfARunIsFollowedByItsSubjectAndItsCause(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Summary{
		"operator start":                       {Trigger: "operator start"},
		"schedule: web/a.sh tick":              {Trigger: "schedule", Subject: "web/a.sh tick"},
		"schedule: web: by ann":                {Trigger: "schedule", Subject: "web", Cause: store.Cause{By: "ann"}},
		"schedule: by ann":                     {Trigger: "schedule", Cause: store.Cause{By: "ann"}},
		"as run 7; schedule: web":              {Trigger: "schedule", Subject: "web", Joined: 7},
		"operator start: each start converges": {Trigger: "operator start", Cause: store.Cause{Detail: "each start\n converges\x1b"}},
	} {
		if got := s.What(); got != want {
			t.Errorf("the run is %q, want %q", got, want)
		}
	}
}

func TestProgressCountsModulesStepsAndPasses(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]Run{
		"":                                  {},
		"1 step done":                       {Counts: map[State]int{Done: 1}},
		"2 steps done, 1 running":           {Counts: map[State]int{Done: 2, Running: 1}},
		"1 step running, 2 waiting":         {Counts: map[State]int{Running: 1, Waiting: 2}},
		"2 steps done, 3 failed":            {Counts: map[State]int{Done: 2, Failed: 1, Backoff: 2}},
		"2 steps failed":                    {Counts: map[State]int{Backoff: 2}},
		"1 of 2 modules":                    {Progress: &Progress{Done: 1, Of: 2}},
		"3 steps done":                      {Progress: &Progress{Done: 1, Of: 1}, Counts: map[State]int{Done: 3}},
		"0 of 2 modules; 3 steps done":      {Progress: &Progress{Of: 2}, Counts: map[State]int{Done: 3}},
		"1 step done; pass 2":               {Counts: map[State]int{Done: 1}, Passes: 2},
		"pass 3, started over at 11:59:00Z": {Passes: 3, Cut: wordsTime.Add(-time.Minute)},
		"1 step allowed, 1 skipped, 1 dropped, 1 superseded, 1 joined, 1 quarantined": {Counts: map[State]int{Allowed: 1, Skipped: 1, Dropped: 1, Superseded: 1, Joined: 1, Quarantined: 1}, Passes: 1},
	} {
		if got := w.ProgressText(Layout{Now: wordsTime}); got != want {
			t.Errorf("the progress is %q, want %q", got, want)
		}
	}
}

func TestNotesOfAStepSayWhatItsRowDoesNotShow(t *testing.T) {
	t.Parallel()
	due := wordsTime.Add(30 * time.Second)
	hook := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	held := func(kind store.ReasonKind, detail string) *store.Reason {
		return &store.Reason{Kind: kind, Detail: detail}
	}
	on := []Ref{{Run: 7, Node: "module-run", Subject: graph.Subject{Module: "db"}, State: Backoff, Due: due, Queue: "other"}}
	for name, test := range map[string]struct {
		step   Step
		layout Layout
		stored bool // no operator runs
		want   []string
	}{
		"a done step":                   {step: Step{State: Done, Error: "no", Detail: "2 modules"}},
		"a done step, wide":             {step: Step{State: Done, Detail: "2 modules", Task: store.ID{Epoch: 1, N: 2}, Queue: "main"}, layout: Layout{Wide: true}, want: []string{"2 modules", "task 1-2 in queue main"}},
		"it began again":                {step: Step{State: Done, Again: true}, want: []string{"interrupted by a restart, and started again"}},
		"a step below began again":      {step: Step{State: Done, Again: true, Steps: []Step{{}}}},
		"interrupted":                   {step: Step{State: Interrupted, Wait: &Wait{For: ForWorker}}, want: []string{"interrupted when the operator ended; starts again when it is next in its queue"}},
		"interrupted in a stored store": {step: Step{State: Interrupted}, stored: true, want: []string{"interrupted when the operator ended; starts again when an operator starts"}},
		"a retry":                       {step: Step{State: Backoff, Due: due}, want: []string{"next try 12:00:30Z (in 30s)"}},
		"a retry of a stored store":     {step: Step{State: Backoff, Due: due}, stored: true},
		"a batch":                       {step: Step{State: Done, Merged: 12}, want: []string{"12 tasks in one run"}},
		"a batch of one":                {step: Step{State: Done, Merged: 1}},
		"an allowed failure":            {step: Step{State: Allowed, Error: "exit status 1\nmore"}, want: []string{"exit status 1"}},
		"a dropped step":                {step: Step{State: Dropped, Error: "no", Detail: "its module is being deleted"}, want: []string{"no", "its module is being deleted"}},
		"a failed step":                 {step: Step{State: Failed, Error: "exit status 1"}, want: []string{"exit status 1"}},
		"a failure before":              {step: Step{State: Done, Failures: 1, LastError: "timeout"}, want: []string{"failed 1 time before, last error: timeout"}},
		"failures before":               {step: Step{State: Done, Failures: 2, LastError: "timeout"}, want: []string{"failed 2 times before, last error: timeout"}},
		"a warning":                     {step: Step{State: Done, Warning: "2 of 3\naddons failed"}, want: []string{"2 of 3 addons failed"}},
		"a skipped step":                {step: Step{State: Skipped, Detail: "ann: it hangs"}, want: []string{"ann: it hangs"}},
		"a namespaced object": {
			step: Step{State: Done, Object: &store.ObjectRef{Event: "Added", Kind: "Pod", Namespace: "shop", Name: "web-1", ResourceVersion: "7"}}, want: []string{"Pod shop/web-1 added (resourceVersion 7)"},
		},
		"an object of the cluster": {step: Step{State: Done, Object: &store.ObjectRef{Event: "Deleted", Kind: "Node", Name: "n1"}}, want: []string{"Node n1 deleted"}},
		"done by another task":     {step: Step{State: Joined, Into: "1-9"}, want: []string{"done by task 1-9"}},
		"in quarantine":            {step: Step{State: Quarantined, Into: "1-9"}, want: []string{"in quarantine as task 1-9"}},
		"held": {
			step: Step{State: Waiting, Into: "1-9", Wait: &Wait{For: ForHold, Held: &store.Reason{Kind: store.AwaitsRelease, By: store.ID{Epoch: 1, N: 9}, Detail: "its module is in quarantine"}}},
			want: []string{"held: its module is in quarantine; task release 1-9 lets it go on"},
		},
		"a rate limit": {
			step: Step{State: Waiting, Wait: &Wait{For: ForLimit, Held: &store.Reason{Kind: store.AwaitsLimit, Detail: "its hook may run once in 1m0s", Until: due}}},
			want: []string{"deferred: its hook may run once in 1m0s, until 12:00:30Z (in 30s)"},
		},
		"a pause":               {step: Step{State: Waiting, Wait: &Wait{For: ForPause, Held: held(store.AwaitsQueue, "ann paused queue main")}}, want: []string{"ann paused queue main"}},
		"behind one task":       {step: Step{State: Waiting, Queue: "q", Wait: &Wait{For: ForQueue, Ahead: 1, On: on}}, want: []string{"behind 1 task in queue q, at its head module-run db (run 7, backoff, next try 12:00:30Z (in 30s))"}},
		"behind tasks":          {step: Step{State: Waiting, Queue: "q", Wait: &Wait{For: ForQueue, Ahead: 2}}, want: []string{"behind 2 tasks in queue q"}},
		"after a running task":  {step: Step{State: Waiting, Wait: &Wait{For: ForRunning, On: []Ref{{Run: 7, Node: "n", State: Running}}}}, want: []string{"comes next, after n (run 7, running)"}},
		"for an operator":       {step: Step{State: Waiting, Wait: &Wait{For: ForStart}}, want: []string{"goes on when an operator starts"}},
		"for a worker":          {step: Step{State: Waiting, Wait: &Wait{For: ForWorker}}, want: []string{"about to begin"}},
		"for an earlier step":   {step: Step{State: Waiting, Wait: &Wait{For: ForStep, Ahead: 3}}},
		"for items of this run": {step: Step{State: Waiting, Wait: &Wait{For: ForItems, Held: held(store.AwaitsItems, "waits for 2 items"), On: []Ref{{Run: 1, Node: "n"}}}}, want: []string{"waits for 2 items"}},
		"for items of another run": {
			step: Step{State: Waiting, Wait: &Wait{For: ForItems, Held: held(store.AwaitsItems, "waits for 2 items"), On: on}},
			want: []string{"waits for 2 items; module-run db (run 7, backoff, next try 12:00:30Z (in 30s)) in queue other"},
		},
		"a running hook in another queue": {step: Step{State: Running, Subject: hook, Queue: "q", Behind: &Behind{Queue: "q", Tasks: 1}}, want: []string{"in queue q", "1 task waits behind it in queue q"}},
		"a running hook in main":          {step: Step{State: Running, Subject: hook, Queue: "main", Behind: &Behind{Queue: "main", Tasks: 3}}, want: []string{"3 tasks wait behind it in queue main"}},
		"a hook that ended":               {step: Step{State: Done, Subject: hook, Queue: "q"}},
		"steps behind in its own run":     {step: Step{State: Running, Behind: &Behind{Queue: "main", Run: 4}}},
	} {
		test.layout.Now = wordsTime
		w := &Run{ID: 1, Live: !test.stored}
		if diff := cmp.Diff(test.want, w.Notes(&test.step, test.layout)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAStepWhoseErrorIsAmongTheProblemsDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	step := Step{State: Failed, Node: "module-run", Subject: graph.Subject{Module: "web"}, Error: "no chart"}
	retried := step
	retried.State, retried.Due = Backoff, wordsTime
	problem := Problem{Kind: KindFailing, Run: 1, Node: "module-run", Subject: graph.Subject{Module: "web"}}
	for name, test := range map[string]struct {
		change func(*Problem)
		notes  int // number of notes of each of the two steps
	}{
		"the problem of the step":      {func(*Problem) {}, 0},
		"a problem of another run":     {func(p *Problem) { p.Run = 2 }, 1},
		"a problem of another node":    {func(p *Problem) { p.Node = "release-check" }, 1},
		"a problem of another subject": {func(p *Problem) { p.Subject.Module = "db" }, 1},
	} {
		p := problem
		test.change(&p)
		w := &Run{ID: 1, Live: true, Problems: []Problem{p}}
		for _, s := range []*Step{&step, &retried} {
			if notes := w.Notes(s, Layout{Now: wordsTime}); len(notes) != test.notes {
				t.Errorf("%s: the notes of the %s step are %q", name, s.State, notes)
			}
		}
	}
}

func TestTitleOfAStepLeavesOutWhatTheStepAboveItShows(t *testing.T) {
	t.Parallel()
	web := graph.Subject{Module: "web"}
	top := &Step{Node: "module-run", Number: "5"}
	module := &Step{Node: "module-run", Number: "5", Subject: web}
	node := &Step{Node: "module-beforehelm", Number: "5c", Subject: web}
	hook := &Step{Node: "module-beforehelm", Number: "5c", Subject: graph.Subject{Module: "web", Hook: "a.sh"}}
	bound := &Step{Node: "module-kubernetes-synchronization", Number: "5b", Subject: graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}}
	for name, test := range map[string]struct {
		step, parent *Step
		want         string
	}{
		"a node at the top":       {top, nil, "5 module-run"},
		"a hook at the top":       {bound, nil, "5b module-kubernetes-synchronization  web/a.sh pods"},
		"a node without a number": {&Step{Node: "gone"}, nil, "gone"},
		"a module":                {module, top, "web"},
		"a node of a module":      {node, module, "5c module-beforehelm"},
		"a hook":                  {hook, node, "a.sh"},
		"a binding of a hook":     {bound, node, "a.sh pods"},
	} {
		if got := test.step.Title(test.parent); got != test.want {
			t.Errorf("%s: the title is %q, want %q", name, got, test.want)
		}
	}
	for want, parent := range map[string]*Step{
		"module": {Node: "module-run", Steps: []Step{*module}}, "step": {Node: "module-run", Subject: web, Steps: []Step{*node}}, "hook": {Node: "module-beforehelm", Subject: web, Steps: []Step{*hook}},
		"configuration": {Node: "n", Steps: []Step{{Node: "n", Subject: graph.Subject{Configuration: "all"}}}},
	} {
		if got := parent.Kind(); got != want {
			t.Errorf("the steps are of kind %q, want %q", got, want)
		}
	}
}

func TestNodesAheadAreNamedWithTheirConditions(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]Ahead{
		"":                     nil,
		"5 a":                  {{Node: "a", Number: "5"}},
		"a (if x)":             {{Node: "a", If: "x"}},
		"a (unless x)":         {{Node: "a", Unless: "x"}},
		"a (each of modules)":  {{Node: "a", Each: "modules"}},
		"a (if x) (each of m)": {{Node: "a", If: "x", Each: "m"}},
		"a, 6 b (if x)":        {{Node: "a"}, {Node: "b", Number: "6", If: "x"}},
	} {
		if got := AheadText(all); got != want {
			t.Errorf("%+v is %q, want %q", all, got, want)
		}
	}
}

func TestAStepWithMoreToShowThanItsEndIsInteresting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		step Step
		want bool
	}{
		"done": {Step{State: Done, Detail: "2 modules"}, false}, "dropped": {Step{State: Dropped}, false}, "superseded": {Step{State: Superseded}, false}, "joined": {Step{State: Joined}, false},
		"allowed": {Step{State: Allowed}, true}, "refused": {Step{State: Refused}, true}, "skipped": {Step{State: Skipped}, true}, "quarantined": {Step{State: Quarantined}, true},
		"waiting": {Step{State: Waiting}, true}, "running": {Step{State: Running}, true}, "failed": {Step{State: Failed}, true},
		"done after a restart":  {Step{State: Done, Again: true}, true},
		"done after a failure":  {Step{State: Done, LastError: "no"}, true},
		"done with a warning":   {Step{State: Done, Warning: "no"}, true},
		"above a failed step":   {Step{State: Done, Steps: []Step{{State: Done, Steps: []Step{{State: Failed}}}}}, true},
		"above steps that end":  {Step{State: Done, Steps: []Step{{State: Done}, {State: Dropped}}}, false},
		"above a step that ran": {Step{State: Done, Steps: []Step{{State: Done}, {State: Done, Again: true}}}, true},
	} {
		if got := test.step.Interesting(); got != test.want {
			t.Errorf("%s: interesting is %t", name, got)
		}
	}
}

func TestANodeIsDrawnWithItsMostImportantStep(t *testing.T) {
	t.Parallel()
	module := func(name string, state State, text string) Step {
		return Step{Node: "module-run", Subject: graph.Subject{Module: name}, State: state, Error: text}
	}
	for name, test := range map[string]struct {
		steps []Step
		most  int
		want  draw.State
	}{
		"one step":                     {[]Step{module("web", Done, "")}, 40, draw.State{Tone: draw.Done, Icon: "✔", Word: "done", Detail: "web"}},
		"a failure before a success":   {[]Step{module("web", Failed, "no chart"), module("db", Done, "")}, 40, draw.State{Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "web no chart"}},
		"a failure after a success":    {[]Step{module("db", Done, ""), module("web", Failed, "no chart")}, 40, draw.State{Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "web no chart"}},
		"a running and a waiting step": {[]Step{module("db", Waiting, ""), module("web", Running, "")}, 40, draw.State{Tone: draw.Active, Icon: "●", Word: "running", Detail: "web"}},
		"a waiting and a done step":    {[]Step{module("db", Done, ""), module("web", Waiting, "")}, 40, draw.State{Tone: draw.Waiting, Icon: "◷", Word: "waiting", Detail: "web"}},
		"a dropped and a done step":    {[]Step{module("db", Dropped, ""), module("web", Done, "")}, 40, draw.State{Tone: draw.Done, Icon: "✔", Word: "done", Detail: "web"}},
		"two alike, the first counts":  {[]Step{module("db", Waiting, ""), module("web", Waiting, "")}, 40, draw.State{Tone: draw.Waiting, Icon: "◷", Word: "waiting", Detail: "db"}},
		"a module below its node": {
			[]Step{{Node: "module-run", State: Failed, Steps: []Step{module("web", Failed, "no chart")}}}, 40, draw.State{Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "web no chart"},
		},
		"an error that is cut":     {[]Step{module("web", Failed, "0123456789\nmore")}, 6, draw.State{Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "web 01234…"}},
		"an error that is not cut": {[]Step{module("web", Failed, "0123456789\nmore")}, Unlimited, draw.State{Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "web 0123456789 more"}},
		"an error of an ended step": {
			[]Step{module("web", Allowed, "no chart")}, 40, draw.State{Tone: draw.Done, Icon: "!", Word: "allowed", Detail: "web"},
		},
	} {
		got := States(&Run{Steps: test.steps}, test.most)
		if diff := cmp.Diff(draw.States{"module-run": test.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCommandsAreToldApartByWhetherTheyChangeSomething(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"status": true, "why web": true, "workflow inspect 3": true, "module list": true, "module patches web": true, "store check": true, "values explain web": true, "global patches": true,
		"task retry 1-2": false, "module run web": false, "reload": false, "store compact": false, "values": false, "whyever": false, "module": false, "": false, "statuses": false, "resume module web": false,
	} {
		a := Advice{Args: strings.Fields(command)}
		if got := a.ChangesNothing(); got != want {
			t.Errorf("%q changes nothing: %t", command, got)
		}
	}
}
