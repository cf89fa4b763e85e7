package inspect

import (
	"strings"
	"testing"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestEveryProblemSaysWhatToDo(t *testing.T) {
	t.Parallel()
	meaning := &Meaning{Fix: "renew it"}
	for name, test := range map[string]struct {
		problem Problem
		want    string
	}{
		"a failing hook":      {Problem{Kind: KindFailing, Node: "module-beforehelm"}, "correct what the error names; the operator then retries the step"},
		"a known error":       {Problem{Kind: KindFailing, Node: "module-beforehelm", Meaning: meaning}, "renew it"},
		"its own fix":         {Problem{Kind: KindFailing, Meaning: meaning, Fix: "edit it"}, "edit it"},
		"a chart":             {Problem{Kind: KindFailing, Node: releaseCheck}, fixChart},
		"an upgrade":          {Problem{Kind: KindFailing, Node: releaseUpgrade}, fixChart},
		"a known error of it": {Problem{Kind: KindFailing, Node: releaseUpgrade, Meaning: meaning}, "renew it"},
		"a hook before the deletion of a release": {
			Problem{Kind: KindFailing, Node: moduleBeforeDeleteHelm}, "correct what the error names; the operator then retries the step. To keep the module, enable it again: the operator then stops deleting it",
		},
		"the deletion of a release": {
			Problem{Kind: KindFailing, Node: releaseDelete, Meaning: meaning}, "renew it. To keep the module, enable it again: the operator then stops deleting it, and installs missing objects",
		},
		"a hook after the deletion of a release": {
			Problem{Kind: KindFailing, Node: moduleAfterDeleteHelm},
			"first make sure that the module must be deleted, and find out what the hook deletes. Then correct what the error names; the operator then retries the step. " +
				"To keep the module, enable it again: it is installed once this hook has succeeded",
		},
		"a slow deletion": {Problem{Kind: KindSlow, Node: releaseDelete}, fixes[KindSlow]},
		"a slow enabled script": {
			Problem{Kind: KindSlow, Node: discoverModules, Subject: graph.Subject{Module: "web", Hook: "enabled"}},
			"find out what the enabled script waits for: the log of the operator (kubectl logs) has its output. The flag --hook-timeout ends such runs",
		},
		"an invalid ConfigMap":            {Problem{Kind: KindRefused}, "correct the ConfigMap; until then the last valid content is in force"},
		"an invalid ConfigMap with a fix": {Problem{Kind: KindRefused, Fix: "quote the number"}, "quote the number. Until then the last valid content is in force"},
		"a Helm hook": {
			Problem{Kind: KindSlow, Awaits: "Job shop/migrate"},
			"see why Job shop/migrate does not end: kubectl -n shop describe job migrate. Helm waits for it no longer than HELM_TIMEOUT; then the step fails and is retried",
		},
		"a problem without a known fix": {Problem{Kind: KindMissedTick}, ""},
	} {
		if got := test.problem.fix(); got != test.want {
			t.Errorf("%s: the fix is %q, want %q", name, got, test.want)
		}
	}
}

func TestAProblemHasTheCommandsThatItsTaskAccepts(t *testing.T) {
	t.Parallel()
	task := store.ID{Epoch: 1, N: 2}
	hook, module := graph.Subject{Module: "web", Hook: "a.sh"}, graph.Subject{Module: "web"}
	for name, test := range map[string]struct {
		problem Problem
		want    []string
	}{
		"a failing hook":               {Problem{Kind: KindFailing, Subject: hook, Due: wordsTime}, []string{"task retry 1-2", "task skip 1-2 --reason TEXT"}},
		"a failing hook that runs":     {Problem{Kind: KindFailing, Subject: hook}, nil},
		"a failing upgrade":            {Problem{Kind: KindFailing, Node: releaseUpgrade, Subject: module, Due: wordsTime}, []string{"task retry 1-2", "task skip 1-2 --reason TEXT"}},
		"a failing check":              {Problem{Kind: KindFailing, Node: releaseCheck, Subject: module, Due: wordsTime}, []string{"task retry 1-2", "task skip 1-2 --reason TEXT"}},
		"a step that nobody must skip": {Problem{Kind: KindFailing, Node: discoverModules, Due: wordsTime}, []string{"task retry 1-2"}},
		"a slow hook":                  {Problem{Kind: KindSlow, Subject: hook}, []string{"task cancel 1-2 --reason TEXT"}},
		"a hook in quarantine":         {Problem{Kind: KindQuarantined, Subject: hook}, []string{"task release 1-2", "task skip 1-2 --reason TEXT"}},
		"a deletion in quarantine":     {Problem{Kind: KindQuarantined, Node: releaseDelete, Subject: module}, []string{"task release 1-2"}},
		"a paused module":              {Problem{Kind: KindPaused, Subject: module}, nil},
	} {
		test.problem.Task = task
		var got []string
		for _, a := range test.problem.commands() {
			got = append(got, strings.Join(a.Args, " "))
			if a.ChangesNothing() || a.Why == "" {
				t.Errorf("%s: the command %q changes nothing, or has no purpose", name, a.Args)
			}
		}
		if strings.Join(got, "; ") != strings.Join(test.want, "; ") {
			t.Errorf("%s: the commands are %q, want %q", name, got, test.want)
		}
	}
}

func TestAFindingOfAProblemHasItsHeadlineItsEvidenceAndItsCommands(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		problem        Problem
		text, evidence string
		advice         []string
	}{
		"a queue":      {Problem{Kind: KindStalled, Queue: "q", Error: "a\nbug"}, "queue q stands still", "a bug", []string{"queue show q"}},
		"a full disk":  {Problem{Kind: KindFull, Error: "no room", At: wordsTime}, "no task starts, because the disk is full", "no room", nil},
		"a quarantine": {Problem{Kind: KindQuarantined, Node: "module-run", Subject: graph.Subject{Module: "web"}, Task: store.ID{Epoch: 1, N: 2}, Held: 3, Error: "died"}, "module-run web is in quarantine as 1-2", "died; 3 tasks are held because of this", []string{"why web", "task release 1-2"}},
		"a file": {
			Problem{Kind: Kind(store.NotExecutable), Object: "/m/x.sh", Error: "the hook is not executable", Fix: "chmod", Command: []string{"reload"}, Effect: "converges"}, "the hook is not executable", "/m/x.sh", []string{"reload # this converges"},
		},
		"a file that the error names": {Problem{Kind: Kind(store.NotExecutable), Object: "/m/x.sh", Error: "/m/x.sh is not executable"}, "/m/x.sh is not executable", "", nil},
		"the time of a file":          {Problem{Kind: Kind(store.NotExecutable), Object: "/m/x.sh", Error: "/m/x.sh is not executable", At: wordsTime}, "/m/x.sh is not executable", "since then", nil},
		"more objects":                {Problem{Kind: Kind(store.SharedObject), Object: "x", Error: "x is shared", More: 1}, "x is shared", "1 other has the same problem", nil},
		"more objects and tasks":      {Problem{Kind: KindPaused, Command: []string{"resume"}, Error: "paused", More: 2, Held: 1}, "paused", "2 others have the same problem; 1 task is held because of this", []string{"resume"}},
	} {
		d := diagnostician{evidence: &evidence{reader: &Reader{Live: true}}}
		f := d.finding(&test.problem)
		var evidence string
		if len(f.Evidence) > 0 {
			evidence = f.Evidence[0].Text
		}
		if f.Text != test.text || evidence != test.evidence || f.Pattern != Pattern(test.problem.Kind) || f.Fix != test.problem.fix() {
			t.Errorf("%s: the finding is %+v", name, f)
		}
		var advice []string
		for _, a := range f.Advice {
			text := strings.Join(a.Args, " ")
			if len(test.problem.Command) > 0 && a.Why != "" {
				text += " # " + a.Why
			}
			advice = append(advice, text)
		}
		if strings.Join(advice, "; ") != strings.Join(test.advice, "; ") {
			t.Errorf("%s: the commands are %q, want %q", name, advice, test.advice)
		}
	}
}

func TestTheNextCommandExplainsAProblemAndChangesNothing(t *testing.T) {
	t.Parallel()
	task := store.ID{Epoch: 1, N: 2}
	for name, test := range map[string]struct {
		problem Problem
		live    bool
		want    string
	}{
		"a queue":                     {Problem{Kind: KindStalled, Queue: "q"}, true, "queue show q"},
		"a queue of a stopped store":  {Problem{Kind: KindStalled, Queue: "q"}, false, ""},
		"a failing hook":              {Problem{Kind: KindFailing, Task: task, Subject: graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}}, true, "why web/a.sh"},
		"a failing global hook":       {Problem{Kind: KindFailing, Task: task, Subject: graph.Subject{Hook: "a.sh", Binding: "pods"}}, true, "why a.sh"},
		"a failing module":            {Problem{Kind: KindFailing, Task: task, Subject: graph.Subject{Module: "web"}}, false, "why web"},
		"a failing step of all":       {Problem{Kind: KindFailing, Task: task}, true, "why 1-2"},
		"a failing configuration":     {Problem{Kind: KindFailing, Task: task, Subject: graph.Subject{Configuration: "ops/all"}}, true, "why 1-2"},
		"a slow hook":                 {Problem{Kind: KindSlow, Task: task, Subject: graph.Subject{Module: "web"}}, true, "why web"},
		"a slow enabled script":       {Problem{Kind: KindSlow, Node: discoverModules, Task: task, Subject: graph.Subject{Module: "web", Hook: "enabled"}}, true, "why 1-2"},
		"a quarantine":                {Problem{Kind: KindQuarantined, Task: task, Subject: graph.Subject{Module: "web"}}, true, "why web"},
		"an invalid ConfigMap":        {Problem{Kind: KindRefused}, true, ""},
		"a module that cannot be run": {Problem{Kind: KindBroken, Subject: graph.Subject{Module: "web"}}, true, ""},
	} {
		got := test.problem.next(test.live)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: the command is %q, want %q", name, got, test.want)
		}
		if a := (Advice{Args: got}); test.want != "" && !a.ChangesNothing() {
			t.Errorf("%s: %q changes something", name, got)
		}
	}
}

func TestStateOfAModuleFollowsFromItsGravestProblem(t *testing.T) {
	t.Parallel()
	web := graph.Subject{Module: "web"}
	hook := graph.Subject{Module: "web", Hook: "a.sh", Binding: "pods"}
	task := store.ID{Epoch: 1, N: 2}
	failing := Problem{Kind: KindFailing, Node: "module-run", Subject: web, Try: 2, Error: "no\nchart", Since: wordsTime}
	broken := Problem{Kind: KindBroken, Subject: web, Error: "no YAML", At: wordsTime}
	paused := Problem{Kind: KindPaused, Subject: web, Error: "ann: disk", At: wordsTime}
	for name, test := range map[string]struct {
		problems []Problem
		want     ModuleStatus
	}{
		"none":                 {nil, ModuleStatus{State: ModuleOn}},
		"failing":              {[]Problem{failing}, ModuleStatus{ModuleFailing, "module-run failed 2 times: no chart", wordsTime}},
		"a failing hook":       {[]Problem{{Kind: KindFailing, Node: "n", Subject: hook, Try: 1, Error: "no"}}, ModuleStatus{State: ModuleFailing, Reason: "n a.sh pods failed 1 time: no"}},
		"without CRDs":         {[]Problem{{Kind: KindNoCRDs, Subject: web, Error: "no", At: wordsTime}}, ModuleStatus{State: ModuleBlocked, Reason: "its CRDs cannot be installed: no"}},
		"in quarantine":        {[]Problem{{Kind: KindQuarantined, Node: "n", Subject: web, Task: task, Error: "died", At: wordsTime}}, ModuleStatus{ModuleQuarantined, "n is quarantined as 1-2: died", wordsTime}},
		"paused":               {[]Problem{paused}, ModuleStatus{ModulePaused, "ann: disk", wordsTime}},
		"a paused hook":        {[]Problem{{Kind: KindPaused, Subject: hook, Error: "ann: disk"}}, ModuleStatus{State: ModuleOn}},
		"slow":                 {[]Problem{{Kind: KindSlow, Subject: web}}, ModuleStatus{State: ModuleOn}},
		"a broken one":         {[]Problem{broken}, ModuleStatus{ModuleBroken, "no YAML", wordsTime}},
		"failing, then broken": {[]Problem{failing, broken}, ModuleStatus{ModuleBroken, "no YAML", wordsTime}},
		"broken, then failing": {[]Problem{broken, failing}, ModuleStatus{ModuleBroken, "no YAML", wordsTime}},
		"failing and paused":   {[]Problem{failing, paused}, ModuleStatus{ModulePaused, "ann: disk", wordsTime}},
		"the first of two":     {[]Problem{failing, {Kind: KindFailing, Node: "n", Subject: web, Try: 1}}, ModuleStatus{ModuleFailing, "module-run failed 2 times: no chart", wordsTime}},
		"another module":       {[]Problem{{Kind: KindBroken, Subject: graph.Subject{Module: "db"}}}, ModuleStatus{State: ModuleOn}},
	} {
		m := Modules{Modules: map[string]ModuleStatus{"web": {State: ModuleOn}}}
		for i := range test.problems {
			m.raise(test.problems[i].Subject.Module, test.problems[i].status())
		}
		if len(m.Modules) != 1 || m.Modules["web"] != test.want {
			t.Errorf("%s: the modules are %+v, want %+v", name, m.Modules, test.want)
		}
	}
}

func TestAChangedValueIsShownWithItsOldAndItsNewValue(t *testing.T) {
	t.Parallel()
	list := []store.ValueChange{{Path: "/a", Old: "1", New: "2"}, {Path: "/b", New: "1"}, {Path: "/c", Old: "1"}, {Path: "/d", Old: "1", New: "2"}}
	for name, test := range map[string]struct {
		changes *store.ValueChanges
		layout  Layout
		want    string
	}{
		"no changes":                {nil, Layout{}, ""},
		"three":                     {&store.ValueChanges{List: list[:3]}, Layout{}, "/a: 1 → 2; /b: none → 1; /c: 1 → none"},
		"in ASCII":                  {&store.ValueChanges{List: list[:1]}, Layout{ASCII: true}, "/a: 1 -> 2"},
		"more than three":           {&store.ValueChanges{List: list}, Layout{}, "/a: 1 → 2; /b: none → 1; /c: 1 → none; 1 more"},
		"more than three, whole":    {&store.ValueChanges{List: list}, Layout{Whole: true}, "/a: 1 → 2; /b: none → 1; /c: 1 → none; /d: 1 → 2"},
		"changes that were dropped": {&store.ValueChanges{List: list, More: 5}, Layout{Wide: true}, "/a: 1 → 2; /b: none → 1; /c: 1 → none; /d: 1 → 2; 5 more"},
		"only dropped changes":      {&store.ValueChanges{More: 5}, Layout{}, "5 more"},
	} {
		if got := changesText(test.changes, test.layout); got != test.want {
			t.Errorf("%s: the text is %q, want %q", name, got, test.want)
		}
	}
}

func TestACauseShowsWhenItEndsAndWhatItChanged(t *testing.T) {
	t.Parallel()
	l := Layout{Now: wordsTime}
	for want, cause := range map[string]CauseStep{
		"x":                                   {Text: "x"},
		"x, next try 12:00:05Z (in 5s)":       {Text: "x", Next: wordsTime.Add(5e9)},
		"x, until 12:00:05Z (in 5s)":          {Text: "x", Until: wordsTime.Add(5e9)},
		"x: /a: 1 → 2":                        {Text: "x", Changes: &store.ValueChanges{List: []store.ValueChange{{Path: "/a", Old: "1", New: "2"}}}},
		"x, until 12:00:00Z (now): /a: 1 → 2": {Text: "x", Until: wordsTime, Changes: &store.ValueChanges{List: []store.ValueChange{{Path: "/a", Old: "1", New: "2"}}}},
	} {
		if got := cause.Words(l); got != want {
			t.Errorf("the cause is %q, want %q", got, want)
		}
	}
}

func TestTheNearestCauseHasMoreLinesThanTheOthers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 60)
	all := []CauseStep{{At: wordsTime, Text: long + " (resourceVersion 17)"}, {Text: long}, {At: wordsTime, Text: "ConfigMap modified (resourceVersion 17)", Fix: "edit it", Advice: []Advice{{Args: []string{"reload"}, Why: "now"}}}}
	l := Layout{Now: wordsTime, Width: 60, Program: "addon-operator"}
	want := strings.Repeat("             word word word word word word word word word\n", 5)
	want = "  12:00:00Z  " + strings.TrimPrefix(want, "             ")
	got := l.causes(all, 5)
	first, rest, _ := strings.Cut(got, "  -          ")
	lines := strings.Split(strings.TrimSuffix(first, "\n"), "\n")
	if len(lines) != 5 || lines[0] != strings.SplitN(want, "\n", 2)[0] || !strings.HasPrefix(lines[4], "             … ") {
		t.Errorf("the nearest cause is\n%s", first)
	}
	others, last, _ := strings.Cut(rest, "  12:00:00Z  ")
	if n := strings.Count(others, "\n"); n != 3 {
		t.Errorf("the second cause has %d lines:\n%s", n, others)
	}
	if want := "ConfigMap modified\n  fix:  edit it\n  then: addon-operator reload  # now\n"; last != want {
		t.Errorf("the last cause is\n%s\nwant\n%s", last, want)
	}
	l.Whole = true
	if got := l.causes(all[2:], 1); !strings.Contains(got, "modified (resourceVersion 17)\n") {
		t.Errorf("in whole texts, the cause is\n%s", got)
	}
}
