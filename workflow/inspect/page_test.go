package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestALongErrorKeepsItsFirstAndItsLastLines(t *testing.T) {
	t.Parallel()
	lines := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("line ", i+1))
		}
		return all
	}
	for name, test := range map[string]struct {
		layout Layout
		lines  int
		want   []string
	}{
		"six lines":        {Layout{}, 6, lines(6)},
		"seven lines":      {Layout{}, 7, append([]string{"line 1", "… 2 lines left out; see them with --all"}, lines(7)[3:]...)},
		"twenty lines":     {Layout{}, 20, append([]string{"line 1", "… 15 lines left out; see them with --all"}, lines(20)[16:]...)},
		"in ASCII":         {Layout{ASCII: true}, 7, append([]string{"line 1", "... 2 lines left out; see them with --all"}, lines(7)[3:]...)},
		"with all rows":    {Layout{All: true}, 20, lines(20)},
		"in a whole text":  {Layout{Whole: true}, 20, lines(20)},
		"without any line": {Layout{}, 0, nil},
	} {
		if diff := cmp.Diff(test.want, test.layout.tail("\n"+strings.Join(lines(test.lines), "\n")+"\n\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLinesThatAreLeftOutOfAnErrorAreCounted cuts errors with random numbers of lines. The shown lines and the stated
// number of omitted lines must add up to the lines of the error.
func TestLinesThatAreLeftOutOfAnErrorAreCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "lines")
		shown := Layout{}.tail(strings.Repeat("x\n", n))
		omitted := 0
		for _, line := range shown {
			if _, err := fmt.Sscanf(line, "… %d line", &omitted); err == nil {
				omitted-- // the line with the number of omitted lines is no line of the error
			}
		}
		if len(shown)+omitted != n || len(shown) > 6 {
			t.Errorf("of %d lines, %d are shown: %q", n, len(shown), shown)
		}
	})
}

func TestTheWorkBehindATaskIsCountedAndNamed(t *testing.T) {
	t.Parallel()
	ref := func(module string) Ref { return Ref{Node: "module-run", Subject: graph.Subject{Module: module}} }
	for want, b := range map[string]*Behind{
		"":                        nil,
		"1 more step of this run": {Queue: "main", Run: 1},
		"3 more steps of this run; then 1 task in queue main: module-run web": {Queue: "main", Run: 3, Tasks: 1, Next: []Ref{ref("web")}},
		"2 tasks in queue main: module-run web, module-run db":                {Queue: "main", Tasks: 2, Next: []Ref{ref("web"), ref("db")}},
		"9 tasks in queue main: module-run web, …":                            {Queue: "main", Tasks: 9, Next: []Ref{ref("web"), ref("web")}},
		"9 tasks or more in queue main: module-run web, …":                    {Queue: "main", Tasks: 9, More: true, Next: []Ref{ref("web")}},
	} {
		if got := b.text(Layout{}); got != want {
			t.Errorf("%+v is %q, want %q", b, got, want)
		}
	}
}

func TestTheHeadlineOfAProblemSaysWhatFails(t *testing.T) {
	t.Parallel()
	web := graph.Subject{Module: "web"}
	for name, test := range map[string]struct {
		problem Problem
		want    string
	}{
		"one failure":       {Problem{Kind: KindFailing, Node: "module-run", Subject: web, Try: 1, At: wordsTime}, "module-run web failed"},
		"two failures":      {Problem{Kind: KindFailing, Node: "module-run", Subject: web, Try: 2}, "module-run web failed 2 times"},
		"a ConfigMap":       {Problem{Kind: KindRefused, At: wordsTime}, "the ConfigMap is invalid and not in force, since 12:00:00Z"},
		"an old problem":    {Problem{Kind: KindRefused}, "the ConfigMap is invalid and not in force"},
		"a module":          {Problem{Kind: KindBroken, Subject: web, At: wordsTime.Add(-24 * time.Hour)}, "module web cannot be loaded, since 2026-02-28 12:00:00Z"},
		"CRDs":              {Problem{Kind: KindNoCRDs, Subject: web, At: wordsTime}, "module web is not run, because its CRDs cannot be installed"},
		"a quarantine":      {Problem{Kind: KindQuarantined, Node: "module-run", Subject: web, Task: store.ID{Epoch: 1, N: 2}, At: wordsTime}, "module-run web is in quarantine as 1-2, since 12:00:00Z"},
		"the API server":    {Problem{Kind: KindAPIServer, Fix: "wait"}, "the API server does not respond as it should"},
		"a full disk":       {Problem{Kind: KindFull, At: wordsTime}, "no task starts, because the disk is full, since 12:00:00Z"},
		"a slow hook":       {Problem{Kind: KindSlow, Node: "module-run", Subject: web, At: wordsTime}, "module-run web runs unusually long, since 12:00:00Z"},
		"a slow Helm hook":  {Problem{Kind: KindSlow, Node: "release-upgrade", Subject: web, Awaits: "Job shop/migrate"}, "release-upgrade web waits long for a Helm hook, Job shop/migrate"},
		"a queue":           {Problem{Kind: KindStalled, Queue: "q"}, "queue q stands still"},
		"a stored problem":  {Problem{Kind: Kind(store.NewDirectory), Object: "/m", Error: "directory /m is new", At: wordsTime}, "directory /m is new"},
		"a paused queue":    {Problem{Kind: KindPaused, Command: []string{"resume"}, Error: "paused by ann"}, "paused by ann"},
		"a slow global one": {Problem{Kind: KindSlow, Node: "discover-modules"}, "discover-modules runs unusually long"},
	} {
		if got := test.problem.Headline(Layout{Now: wordsTime}); got != test.want {
			t.Errorf("%s: the headline is %q, want %q", name, got, test.want)
		}
	}
}

func TestProblemsOfOtherRunsAreShort(t *testing.T) {
	t.Parallel()
	failing := Problem{Kind: KindFailing, Run: 7, Node: "module-run", Subject: graph.Subject{Module: "web"}, Try: 1, Error: "no chart"}
	full := Problem{Kind: KindFull, Error: "no room"}
	w := &Run{ID: 1, Live: true, Problems: []Problem{failing, full, failing, failing, failing}}
	shown := func(layout Layout) []string {
		layout.Now = wordsTime
		p := &page{layout: layout, run: w}
		p.problems()
		return p.lines
	}
	short := "✖ run 7: module-run web failed"
	want := []string{"", short, "✖ no task starts, because the disk is full: no room", short, "  … and 2 more problems; see them with --all"}
	if diff := cmp.Diff(want, shown(Layout{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := shown(Layout{All: true}); len(got) != 6 || got[5] != short {
		t.Errorf("with all rows, the problems are %q", got)
	}
	if got := shown(Layout{Whole: true}); len(got) != 6 || got[5] != short+": no chart" {
		t.Errorf("in a whole text, the problems are %q", got)
	}
	w.Problems = w.Problems[:4]
	if got := shown(Layout{}); got[len(got)-1] != "  … and 1 more problem; see them with --all" {
		t.Errorf("of 4 problems, the last line is %q", got[len(got)-1])
	}
}

func TestAFailingStepSaysWhenItIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		due  time.Time
		live bool
		want string
	}{
		"a retry":               {wordsTime.Add(5 * time.Second), true, "  last try 12:00:00Z, next try 12:00:05Z (in 5s)"},
		"a run that began over": {time.Time{}, true, "  last try 12:00:00Z, its run is under way again"},
		"a stopped operator":    {wordsTime.Add(5 * time.Second), false, "  last try 12:00:00Z, the next when an operator starts"},
	} {
		p := &page{layout: Layout{Now: wordsTime}, run: &Run{ID: 1, Live: test.live}}
		p.problem(&Problem{Kind: KindFailing, Run: 1, Node: "n", Try: 1, At: wordsTime, Due: test.due, Error: "no", Held: 2, Behind: &Behind{Queue: "q", Tasks: 1, Next: []Ref{{Node: "m"}}}})
		want := []string{"✖ n failed", "  │ no", test.want, "  holds 2 tasks until it is released or skipped", "  behind it 1 task in queue q: m"}
		if diff := cmp.Diff(want, p.lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestATextFitsTheScreenAndCountsTheLinesThatItLeavesOut writes runs with random steps. The rows of ended steps are
// left out first, and then the rows of waiting steps.
func TestATextFitsTheScreenAndCountsTheLinesThatItLeavesOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &Run{ID: 1, State: Running, Trigger: "start", Began: wordsTime, Live: true, At: wordsTime}
		states := rapid.SliceOfN(rapid.SampledFrom([]State{Done, Waiting, Failed}), 1, 40).Draw(t, "states")
		count := map[State]int{}
		for i, s := range states {
			count[s]++
			w.Steps = append(w.Steps, Step{Node: fmt.Sprintf("node-%s-%02d", s, i), State: s})
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "advice") {
			w.Advice = append(w.Advice, Advice{Args: []string{"command", fmt.Sprint(i)}, Why: "why"})
		}
		whole := Text(w, Layout{})
		height := rapid.IntRange(10, 50).Draw(t, "height")
		text := Text(w, Layout{Height: height})
		lines := strings.Count(text, "\n")
		shown := func(s State) int { return strings.Count(text, "node-"+string(s)) }
		omitted := 0
		for line := range strings.Lines(text) {
			_, _ = fmt.Sscanf(line, "  … %d line", &omitted)
		}
		switch {
		case strings.Count(whole, "\n") <= height:
			if text != whole {
				t.Errorf("a text that fits is changed:\n%s", text)
			}
		case lines != height && omitted > 0:
			t.Errorf("%d lines on a screen of %d:\n%s", lines, height, text)
		case strings.Count(whole, "\n")-omitted+1 != lines:
			t.Errorf("%d lines are left out of %d, but %d are shown:\n%s", omitted, strings.Count(whole, "\n"), lines, text)
		case shown(Done) > 0 && (shown(Waiting) < count[Waiting] || shown(Failed) < count[Failed]):
			t.Errorf("ended steps are shown, and others are left out:\n%s", text)
		}
		for _, a := range w.Advice {
			if !strings.Contains(text, strings.Join(a.Args, " ")) {
				t.Errorf("the command %q is left out:\n%s", a.Args, text)
			}
		}
	})
}

func TestPurposesOfCommandsAreBesideThemOnlyIfThereIsSpace(t *testing.T) {
	t.Parallel()
	w := &Run{Advice: []Advice{{Args: []string{"queue", "list"}, Why: "all queues"}, {Args: []string{"task", "retry", "1-2"}, Why: "once it is mended"}}}
	for width, want := range map[int][]string{
		80: {"", "  ao queue list      # all queues", "  ao task retry 1-2  # once it is mended"},
		40: {"", "  # all queues", "  ao queue list", "  # once it is mended", "  ao task retry 1-2"},
	} {
		p := &page{layout: Layout{Width: width, Program: "ao"}, run: w}
		if p.advice(); !slices.Equal(p.lines, want) {
			t.Errorf("in %d columns, the commands are\n%s", width, strings.Join(p.lines, "\n"))
		}
	}
}

// TestAFixBreaksNoCommand wraps random fixes. Each command must be on one line, and no other line may be too wide.
func TestAFixBreaksNoCommand(t *testing.T) {
	t.Parallel()
	parts := rapid.SampledFrom([]string{
		"see the pods", "kubectl get pods -n shop -o yaml", "kubectl describe pod", "chmod +x /modules/010-web/hooks/x.sh", "addon-operator reload", "Then wait", "(kubectl get lease)", "correct it", "and",
	})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(parts, 1, 8).Draw(t, "parts")
		width := rapid.IntRange(30, 80).Draw(t, "width")
		text := strings.Join(words, ". ")
		lines := wrapFix(text, width)
		for _, word := range words {
			command := strings.Trim(word, "()")
			if commandBegins.MatchString(command) && !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, command) }) {
				t.Errorf("the command %q is broken: %q", command, lines)
			}
		}
		for _, line := range lines {
			if columns(line) > width && !commandBegins.MatchString(line) {
				t.Errorf("%q has %d columns, more than %d", line, columns(line), width)
			}
			if strings.Contains(line, tie) {
				t.Errorf("%q has the character that ties the words of commands", line)
			}
		}
		without := func(text string) string { return strings.NewReplacer(" ", "", ".", "").Replace(text) }
		if got, want := without(strings.Join(lines, "")), without(text); got != want {
			t.Errorf("the lines have %q, and the fix has %q", got, want)
		}
	})
}

func TestRunsAreListedInColumns(t *testing.T) {
	t.Parallel()
	began := wordsTime.Add(-90 * time.Second)
	summary := Summary{ID: 12, Trigger: "schedule", Subject: "web/a.sh tick", State: Done, Began: began, Ended: began.Add(1500 * time.Millisecond)}
	open := Summary{ID: 7, Trigger: "start", State: Running, Began: began, Open: 3, Warning: "2 of 3 addons failed"}
	groups := []RunGroup{
		{Summary: summary, Count: 1},
		{Summary: open, Count: 1},
		{Summary: summary, Count: 5, First: 3, FirstBegan: began.Add(-time.Hour), Failures: 1, More: true},
	}
	want := `ID  STATE         TRIGGER: CAUSE                                                                                         AGE   TOOK OPEN
12  ✔ done        schedule: web/a.sh tick                                                                              1m30s   1.5s
 7  ● running     start                                                                                                1m30s  1m30s    3
                  2 of 3 addons failed
12  ✔ done        at least 5 runs, 1 failed attempt, of web/a.sh tick from 3, 10:58:30Z to 11:58:30Z: schedule         1m30s
`
	normal := func(text string) string {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		return strings.Join(lines, "\n")
	}
	got := GroupsText(groups, Layout{Width: 140, Now: wordsTime})
	if diff := cmp.Diff(normal(want), normal(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(GroupsText(groups[:1], Layout{Now: wordsTime}), ListText([]Summary{summary}, Layout{Now: wordsTime})); diff != "" {
		t.Errorf("a list differs from a list of groups:\n%s", diff)
	}
	for line := range strings.Lines(GroupsText(groups, Layout{Now: wordsTime})) {
		if n := columns(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	if got := GroupsText(nil, Layout{}); got != "no runs yet\n" {
		t.Errorf("without runs, the list is %q", got)
	}
}

func TestTheTextOfAnAttemptIsItsResultOrItsError(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]store.Record{
		"":                        {State: store.Done},
		"2 modules":               {State: store.Done, Detail: "2 modules", Error: "of an earlier attempt"},
		"no chart":                {State: store.Failed, Detail: "2 modules", Error: "no chart"},
		"not found":               {State: store.Allowed, Error: "not found"},
		"1 module":                {State: store.Failed, Detail: "1 module"},
		"dropped":                 {State: store.Dropped, Error: "dropped"},
		"2 modules; one is new":   {State: store.Done, Detail: "2 modules", Warning: "one is new"},
		"one is unknown":          {State: store.Done, Warning: "one is unknown"},
		"exit status 1; it hangs": {State: store.Failed, Error: "exit status 1", Warning: "it hangs"},
	} {
		r.Ended, r.Began, r.Try, r.Node = wordsTime, wordsTime.Add(-time.Second), 2, "n"
		e := attemptEntry(&line{Record: r}, position{})
		if e.Text != want || !e.At.Equal(r.Ended) || !e.Began.Equal(r.Began) || e.Try != 2 || e.Node != "n" || e.What != string(r.State) || e.Output != "" {
			t.Errorf("the entry is %+v, want the text %q", e, want)
		}
	}
}

func TestCommandsOfPeopleNameTheirTargetOnce(t *testing.T) {
	t.Parallel()
	web := graph.Subject{Module: "web"}
	for want, a := range map[string]store.Action{
		"reload":                           {Verb: "reload"},
		"reload: new images":               {Verb: "reload", Reason: "new images"},
		"pause module web":                 {Verb: "pause", What: "module web", Subject: web},
		"task retry 1-2 (web)":             {Verb: "task retry", What: "1-2", Subject: web},
		"task skip 1-2 (web): it is known": {Verb: "task skip", What: "1-2", Subject: web, Reason: "it is known"},
	} {
		a.At, a.By, a.Run, a.Queue = wordsTime, "ann", 7, "q"
		e := commandEntry(&a)
		if e.Text != want || e.By != "ann" || e.What != Command || e.Run != 7 || e.Queue != "q" || !e.At.Equal(wordsTime) {
			t.Errorf("the entry is %+v, want the text %q", e, want)
		}
	}
}

func TestAStartOfTheOperatorNamesItsVersionItsPodAndTheCrashBefore(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]store.Start{
		"operator, epoch 3":                                            {Epoch: 3},
		"operator, epoch 3, version v2, pod p-0":                       {Epoch: 3, Version: "v2", Pod: "p-0"},
		"operator, epoch 3; the process of epoch 2 had crashed":        {Epoch: 3, Crashed: 2},
		"operator, epoch 3, pod p; the process of epoch 1 had crashed": {Epoch: 3, Pod: "p", Crashed: 1},
	} {
		if got := startText(&s); got != want {
			t.Errorf("the start is %q, want %q", got, want)
		}
	}
	if got := endText(&store.Run{Joined: 7, Warning: "w"}); got != "goes on as run 7" {
		t.Errorf("the end of a joined run is %q", got)
	}
	if got := endText(&store.Run{Warning: "w"}); got != "w" {
		t.Errorf("the end of a run with a warning is %q", got)
	}
}

func TestOutputIsBelowTheTitleOfItsAttempt(t *testing.T) {
	t.Parallel()
	e := Entry{At: wordsTime, What: "failed", Run: 3, Task: store.ID{Epoch: 1, N: 2}, Node: "module-beforehelm", Subject: "web/a.sh", Try: 2, Output: "\x1b[31mred\x1b[0m  \n\n\tend\x07"}
	l := Layout{Now: wordsTime}
	want := "12:00:00Z  module-beforehelm web/a.sh failed, attempt 2, run 3, task 1-2\n  red\n\n   end\n"
	if got := FollowedLog(&e, l); got != want {
		t.Errorf("the output is\n%q, want\n%q", got, want)
	}
	if got := LogsText(&Timeline{Entries: []Entry{e}, More: true}, l); got != "older attempts are left out; -n N shows more\n"+want {
		t.Errorf("the list is\n%s", got)
	}
	e.Try = 1
	if got := FollowedLog(&e, l); !strings.HasPrefix(got, "12:00:00Z  module-beforehelm web/a.sh failed, run 3, task 1-2\n") {
		t.Errorf("the output of the first attempt is\n%s", got)
	}
	lost := Entry{At: wordsTime, What: Omitted, Text: "7 entries"}
	if got, want := strings.Join(strings.Fields(FollowedLog(&lost, l)), " "), "12:00:00Z - omitted 7 entries"; got != want {
		t.Errorf("omitted entries are %q, want %q", got, want)
	}
	if got, want := LogsText(&Timeline{}, Layout{Width: Unlimited}), "the history has no output: the output of a step is stored when the step ends; kubectl logs shows the output of running steps\n"; got != want {
		t.Errorf("without output, the text is %q", got)
	}
}

// TestProblemsForMetricsIncludeDamageAndTheAPIServer creates problems of the ConfigMap, the disk, two queues, a
// webhook, a directory, a damaged record and the API server. Problems must return all of them.
func TestProblemsForMetricsIncludeDamageAndTheAPIServer(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *store.Tx) error {
		tx.Put(store.ModuleKey("web"), []byte("{"))
		_, err := store.SaveProblem(tx, store.Problem{Kind: store.NewDirectory, Object: "/m", Error: "it is new", Since: wordsTime})
		return errors.Join(err, store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{Run: 3, Error: "no YAML"}))
	}); err != nil {
		t.Fatal(err)
	}
	r := Reader{
		Live: true, Requests: &Requests{Failed: 30, Span: time.Minute}, Webhooks: []Problem{{Kind: KindReview, Fix: "correct it"}},
		Stalled: map[string]string{"b": "a bug", "a": "another"}, Full: &store.Shortage{Since: wordsTime, Err: errors.New("no room")},
	}
	var kinds, queues []string
	if err := db.View(func(tx *store.Tx) error {
		problems, err := r.Problems(tx)
		for _, p := range problems {
			kinds = append(kinds, string(p.Kind))
			if p.Queue != "" {
				queues = append(queues, p.Queue)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// The problem of a run must be first. The problems of damaged records and of the API server must be last.
	want := []string{string(KindRefused), string(KindFull), string(KindStalled), string(KindStalled), string(KindReview), string(store.NewDirectory), string(store.DamagedRecord), string(KindAPIServer)}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Equal(queues, []string{"a", "b"}) {
		t.Errorf("the queues that stand still are %q", queues)
	}
}
