package inspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestTheGravestOfTwoStatesIsShown(t *testing.T) {
	t.Parallel()
	order := []State{Backoff, Running, Interrupted, Failed, Waiting} // gravest first
	for i, a := range order {
		for j, b := range order {
			if got, want := graver(a, b), order[min(i, j)]; got != want {
				t.Errorf("of %s and %s, %s is shown, want %s", a, b, got, want)
			}
		}
		if got := graver("", a); got != a {
			t.Errorf("of no state and %s, %s is shown", a, got)
		}
		if got := graverRun(Done, a); got != a {
			t.Errorf("of an ended run and one that is %s, %s is shown", a, got)
		}
	}
	if got := graverRun(Done, Dropped); got != Done {
		t.Errorf("of a done and a dropped run, %s is shown", got)
	}
}

func TestAGroupOfEndedStepsHasTheStateOfItsLastStep(t *testing.T) {
	t.Parallel()
	for last, want := range map[State]State{
		"": Failed, Done: Done, Allowed: Done, Skipped: Done, Joined: Done, Refused: Done, Dropped: Dropped, Superseded: Superseded, Quarantined: Quarantined,
	} {
		if got := whole(last); got != want {
			t.Errorf("after a last step that is %q, the group is %s, want %s", last, got, want)
		}
	}
	for s := range badges {
		ended := s != Running && s != Waiting && s != Failed && s != Backoff && s != Interrupted && s != Failing
		if s.ended() != ended {
			t.Errorf("work that is %s has ended: %t", s, s.ended())
		}
	}
}

func TestAWaitIsDescribedByItsReason(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]Wait{
		"waits for the steps before it in its run": {For: ForStep, Ahead: 3},
		"waits behind 1 task in queue q":           {For: ForQueue, Ahead: 1},
		"waits behind 2 tasks in queue q":          {For: ForQueue, Ahead: 2},
		"is next in queue q":                       {For: ForRunning},
		"waits for an operator: none runs":         {For: ForStart},
		"is about to begin":                        {For: ForWorker},
		"waits":                                    {For: ForItems},
		"is held: its module is in quarantine":     {For: ForHold, Held: &store.Reason{Kind: store.AwaitsRelease, Detail: "its module is in quarantine"}},
		"ann paused queue q":                       {For: ForPause, Held: &store.Reason{Kind: store.AwaitsQueue, Detail: "ann paused queue q"}},
		"waits for its retry":                      {For: ForRetry, Held: &store.Reason{Kind: store.AwaitsRetry, Detail: "waits for its retry"}},
	} {
		if got := w.text("q"); got != want {
			t.Errorf("the wait %+v is %q, want %q", w, got, want)
		}
	}
}

func TestEveryReasonOfTheEngineHasAReasonHere(t *testing.T) {
	t.Parallel()
	for _, kind := range []store.ReasonKind{
		store.AwaitsStart, store.AwaitsRelease, store.AwaitsLimit, store.AwaitsDelay, store.AwaitsResume, store.AwaitsQueue, store.AwaitsRetry, store.AwaitsExclusive, store.AwaitsItems, store.AwaitsModules,
	} {
		if waitsFor[kind] == "" {
			t.Errorf("a task that awaits %s has no reason", kind)
		}
	}
}

func TestTheQuestionAboutAStepHasItsState(t *testing.T) {
	t.Parallel()
	for s, want := range map[State]string{Running: "does web run", Backoff: "does web fail", Failed: "does web fail", Waiting: "does web wait", Interrupted: "does web wait"} {
		if got := (&Step{State: s}).verb("web"); got != want {
			t.Errorf("the question about a step that is %s is %q, want %q", s, got, want)
		}
	}
	for n, want := range map[int]string{0: "failed", 1: "failed", 2: "failed 2 times since then"} {
		if got := failedTimes(n); got != want {
			t.Errorf("%d failures are %q, want %q", n, got, want)
		}
	}
}

// TestThePendingStepIsTheGravestAndLowestOne searches trees of steps for a pending step. The result must be the step
// with the gravest state. If a step below it has the same state, the result must be the lower step.
func TestThePendingStepIsTheGravestAndLowestOne(t *testing.T) {
	t.Parallel()
	step := func(node string, state State, below ...Step) Step {
		return Step{Node: node, State: state, Steps: below}
	}
	for want, steps := range map[string][]Step{
		"":                       {step("a", Done), step("b", Skipped, step("c", Waiting))},
		"the only one":           {step("a", Done), step("the only one", Waiting)},
		"the first of equals":    {step("the first of equals", Waiting), step("b", Waiting)},
		"a failing one":          {step("a", Waiting), step("b", Running), step("a failing one", Backoff)},
		"the step with the task": {step("a", Running, step("the step with the task", Running)), step("c", Waiting)},
		"one below another":      {step("a", Backoff, step("b", Waiting), step("c", Backoff, step("one below another", Backoff)))},
		"a failing one below":    {step("a", Waiting, step("a failing one below", Backoff))},
		"the graver one above":   {step("the graver one above", Backoff, step("b", Waiting))},
	} {
		got := ""
		if s := (&Run{Steps: steps}).step(func(*Step) bool { return true }); s != nil {
			got = s.Node
		}
		if got != want {
			t.Errorf("step %q is found, want %q", got, want)
		}
	}
	only := (&Run{Steps: []Step{step("a", Backoff), step("b", Waiting)}}).step(func(s *Step) bool { return s.Node == "b" })
	if only == nil || only.Node != "b" {
		t.Errorf("of the wanted steps, %+v is found", only)
	}
}

func TestTheStepForWhichTheOthersWaitBlocksARun(t *testing.T) {
	t.Parallel()
	for want, steps := range map[string][]Step{
		"":              {{Node: "a", State: Waiting, Wait: &Wait{For: ForStep}}, {Node: "b", State: Done}},
		"a running one": {{Node: "a", State: Waiting, Wait: &Wait{For: ForStep}}, {Node: "a running one", State: Running}},
		"a held one":    {{Node: "a", State: Waiting, Wait: &Wait{For: ForStep}}, {Node: "a held one", State: Waiting, Wait: &Wait{For: ForHold}}},
		"below":         {{Node: "a", State: Running, Steps: []Step{{Node: "b", State: Waiting, Wait: &Wait{For: ForStep}}, {Node: "below", State: Running}}}},
	} {
		got := ""
		if s := (&Run{Steps: steps}).blocking(); s != nil {
			got = s.Node
		}
		if got != want {
			t.Errorf("%q blocks the run, want %q", got, want)
		}
	}
}

func TestARunWaitsForTheTasksOfOtherRuns(t *testing.T) {
	t.Parallel()
	on := func(run uint64, node string) []Ref { return []Ref{{Run: run, Node: node}} }
	w := &Run{ID: 1, Steps: []Step{
		{Wait: &Wait{For: ForQueue, On: on(2, "a")}},
		{Wait: &Wait{For: ForQueue, On: on(1, "own")}},
		{Wait: &Wait{For: ForStep, On: on(3, "step")}},
		{Steps: []Step{{Wait: &Wait{For: ForItems, On: on(4, "b")}}, {Wait: &Wait{For: ForRunning, On: on(5, "c")}}, {}}},
	}}
	if diff := cmp.Diff([]Ref{{Run: 2, Node: "a"}, {Run: 4, Node: "b"}, {Run: 5, Node: "c"}}, w.holders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNextCommandsOfARunLeadToWhatBlocksIt(t *testing.T) {
	t.Parallel()
	behind := &Behind{Queue: "main", Tasks: 2}
	task := store.ID{Epoch: 1, N: 2}
	for name, test := range map[string]struct {
		run  Run
		want []string
	}{
		"nothing":                 {Run{ID: 1, Live: true}, nil},
		"a failing step":          {Run{ID: 1, Live: true, Problems: []Problem{{Kind: KindFailing, Run: 1, Task: task, Node: discoverModules, Due: wordsTime}}}, []string{"task retry 1-2"}},
		"with tasks behind it":    {Run{ID: 1, Live: true, Problems: []Problem{{Kind: KindFailing, Run: 1, Task: task, Node: discoverModules, Due: wordsTime, Behind: behind}}}, []string{"task retry 1-2", "queue list"}},
		"of a stopped operator":   {Run{ID: 1, Problems: []Problem{{Kind: KindFailing, Run: 1, Task: task, Due: wordsTime, Behind: behind}}}, nil},
		"of another run":          {Run{ID: 1, Live: true, Problems: []Problem{{Kind: KindFailing, Run: 3, Task: task, Due: wordsTime, Behind: behind}}}, []string{"workflow inspect 3"}},
		"two of another run":      {Run{ID: 1, Live: true, Problems: []Problem{{Kind: KindFailing, Run: 3}, {Kind: KindFailing, Run: 3}}}, []string{"workflow inspect 3"}},
		"a module":                {Run{ID: 1, Live: true, Problems: []Problem{{Kind: KindBroken}}}, []string{"module list"}},
		"a queue":                 {Run{ID: 1, Live: true, Problems: []Problem{{Kind: KindStalled}}}, []string{"queue list"}},
		"a run that holds it":     {Run{ID: 1, Live: true, Steps: []Step{{Wait: &Wait{For: ForQueue, On: []Ref{{Run: 5}}}}}}, []string{"workflow inspect 5", "queue list"}},
		"a run that continues it": {Run{ID: 1, Live: true, Joined: 6}, []string{"workflow inspect 6"}},
	} {
		var got []string
		for _, a := range test.run.advise() {
			text := a.Args[0]
			for _, arg := range a.Args[1:] {
				text += " " + arg
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheOldestEvidenceThatIsNotInTheFutureDatesAFinding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		evidence []time.Duration // before now
		want     time.Duration
	}{
		"none": {nil, -1}, "one": {[]time.Duration{time.Minute}, time.Minute}, "the oldest": {[]time.Duration{time.Minute, time.Hour, time.Second}, time.Hour},
		"now": {[]time.Duration{0}, 0}, "in the future": {[]time.Duration{-time.Minute}, -1}, "one in the future": {[]time.Duration{-time.Minute, time.Second}, time.Second},
	} {
		f := Finding{Evidence: []CauseStep{{Text: "without a time"}}}
		for _, d := range test.evidence {
			f.Evidence = append(f.Evidence, CauseStep{At: wordsTime.Add(-d)})
		}
		want := wordsTime.Add(-test.want)
		if test.want < 0 {
			want = time.Time{}
		}
		if got := f.since(wordsTime); !got.Equal(want) {
			t.Errorf("%s: the finding is of %s, want %s", name, got, want)
		}
	}
}

func TestOnlyAHookThatMadeAllChangesIsNamed(t *testing.T) {
	t.Parallel()
	of := func(hook, binding string) store.Record {
		return store.Record{Subject: graph.Subject{Module: "web", Hook: hook, Binding: binding}}
	}
	for want, attempts := range map[string][]store.Record{
		"": {of("a.sh", "pods"), of("b.sh", "pods")}, "hook web/a.sh changes": {of("a.sh", "pods"), of("a.sh", "nodes")},
	} {
		if got := onlyHook(attempts); got != want {
			t.Errorf("the sentence begins with %q, want %q", got, want)
		}
	}
	if got := onlyHook(nil); got != "" {
		t.Errorf("without an attempt, the sentence begins with %q", got)
	}
}

func TestPositionsAreComparedByEpochAndThenByNumber(t *testing.T) {
	t.Parallel()
	order := []position{{}, afterStart, {1, 0}, {1, 9}, {2, 3}, last}
	for i, a := range order {
		for j, b := range order {
			if got, want := a.compare(b), min(max(i-j, -1), 1); got != want {
				t.Errorf("%v compared with %v is %d, want %d", a, b, got, want)
			}
		}
	}
}
