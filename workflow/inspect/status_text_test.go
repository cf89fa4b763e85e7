package inspect_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

var statusTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// waitingQueue returns a queue with the given number of tasks. The task at the head of the queue is
// about module web.
func waitingQueue(name string, tasks int, wait *inspect.Wait) inspect.StatusQueue {
	return inspect.StatusQueue{Name: name, Tasks: tasks, Since: statusTime.Add(-time.Minute), Head: inspect.Ref{Node: "module-run", Subject: graph.Subject{Module: "web"}}, Wait: wait}
}

// TestStatusSaysInWordsHowTheOperatorIs checks lines of statuses that rarely occur in a cluster.
func TestStatusSaysInWordsHowTheOperatorIs(t *testing.T) {
	t.Parallel()
	held := &inspect.Wait{For: inspect.ForHold, Held: &store.Reason{Kind: store.AwaitsRelease, By: store.ID{Epoch: 1, N: 7}, Detail: "held"}}
	for name, c := range map[string]struct {
		status inspect.Status
		layout inspect.Layout
		want   []string
		lacks  []string
	}{
		"an empty store": {
			inspect.Status{Epoch: 1},
			inspect.Layout{},
			[]string{"◷ no operator runs; nothing in its store needs attention\nstore of a stopped operator, epoch 1, never converged\n", "modules   none\n", "queues    no pending tasks\n", "running   nothing\n"},
			[]string{"\nstore  ", "API", "lease", "lost"},
		},
		"the converge of the start": {
			inspect.Status{Live: true, Starting: true, Converged: statusTime.Add(-time.Hour), ConvergedRun: 3},
			inspect.Layout{},
			[]string{"● nothing needs attention; the converge of the start is in progress\n", "last converged 11:00:00Z (run 3), before this start\n"},
			nil,
		},
		"in ASCII":     {inspect.Status{Live: true}, inspect.Layout{ASCII: true}, []string{"+ nothing needs attention\n"}, []string{"✔"}},
		"with colours": {inspect.Status{Live: true}, inspect.Layout{Colour: true}, []string{"\x1b[1m\x1b[32m✔ nothing needs attention\x1b[0m\n"}, nil},
		"a standby": {
			inspect.Status{Live: true, Operator: inspect.StatusOperator{Version: "v1", Started: statusTime.Add(-time.Hour), Standby: "waiting for Lease ops/l, which pod-1 holds", StandbySince: statusTime.Add(-time.Minute)}},
			inspect.Layout{Program: "addon-operator", More: " --debug-unix-socket /s"},
			[]string{"◷ standby: waiting for Lease ops/l, which pod-1 holds\naddon-operator v1, up 1h00m, standby since 11:59:00Z, epoch 0, never converged\n  next:  addon-operator diagnose --debug-unix-socket /s\n"},
			nil,
		},
		"a standby with a problem": {
			inspect.Status{Live: true, Attention: true, Problems: []inspect.Problem{{Kind: inspect.KindFull, Error: "no room"}}, Operator: inspect.StatusOperator{Standby: "waiting for a Lease"}},
			inspect.Layout{},
			[]string{"✖ 1 problem needs attention\naddon-operator, standby: waiting for a Lease, epoch 0"},
			nil,
		},
		"a lost span": {
			inspect.Status{Live: true, Lost: &store.LostSpan{How: "a snapshot was restored", From: statusTime.Add(-time.Hour), To: statusTime}},
			inspect.Layout{Width: 200},
			[]string{"lost      a snapshot was restored; it is unknown what happened from 2026-03-01T11:00:00Z to 2026-03-01T12:00:00Z\n"},
			nil,
		},
		"requests and Lease": {
			inspect.Status{Live: true, Requests: &inspect.Requests{Span: time.Minute}, Operator: inspect.StatusOperator{Lease: "held since 11:00:00Z " + strings.Repeat("long ", 15)}},
			inspect.Layout{},
			[]string{"API       no requests in 1m00s\nlease     held since 11:00:00Z long ", "long\n          long"},
			nil,
		},
		"more tasks than were counted": {
			inspect.Status{Live: true, Later: 3, Queues: []inspect.StatusQueue{waitingQueue("main", 500, nil), {Name: "pods", Tasks: 1, More: true}}},
			inspect.Layout{},
			[]string{"queues    504 pending tasks or more in 2 queues, 3 of them due later or held\n"},
			[]string{"QUEUE"},
		},
		"tasks in no queue": {inspect.Status{Live: true, Later: 1}, inspect.Layout{}, []string{"queues    1 pending task, due later or held\n"}, nil},
		"queues that wait": {
			inspect.Status{Live: true, Queues: []inspect.StatusQueue{waitingQueue("main", 2, held), waitingQueue("pods", 1, &inspect.Wait{For: inspect.ForWorker})}},
			inspect.Layout{Width: 200},
			[]string{"queues    3 pending tasks in 2 queues; 1 queue waits\n", "main   2      1m00s       module-run web: ", "; task release 1-7 lets it go on\n"},
			[]string{"pods "},
		},
		"queues of a stopped operator": {
			inspect.Status{Queues: []inspect.StatusQueue{waitingQueue("main", 2, held)}}, inspect.Layout{}, []string{"queues    2 pending tasks in 1 queue\n"}, []string{"QUEUE", "queue waits"},
		},
		"held tasks of a quarantined one": {
			inspect.Status{Live: true, Attention: true, Problems: []inspect.Problem{{Kind: inspect.KindQuarantined, Node: "module-beforehelm", Subject: graph.Subject{Module: "web", Hook: "a.sh"}, Task: store.ID{Epoch: 1, N: 9}, At: statusTime.Add(-time.Hour), Error: "the operator died", Held: 2}}},
			inspect.Layout{Program: "addon-operator", Width: 200},
			[]string{"✖ module-beforehelm web/a.sh is in quarantine as 1-9, since 11:00:00Z: the operator died\n  waits: 2 tasks of the same module or hook, held until it is released or skipped\n  next:  addon-operator why web/a.sh\n"},
			nil,
		},
		"a queue that stands still": {
			inspect.Status{Live: true, Attention: true, Problems: []inspect.Problem{{Kind: inspect.KindStalled, Queue: "pods", Error: "a bug"}}},
			inspect.Layout{Program: "addon-operator"},
			[]string{"✖ queue pods stands still: a bug\n  next:  addon-operator queue show pods\n"},
			nil,
		},
		"a queue that stands still, of a stopped operator": {
			inspect.Status{Attention: true, Problems: []inspect.Problem{{Kind: inspect.KindStalled, Queue: "pods", Error: "a bug"}}},
			inspect.Layout{Program: "addon-operator", Width: 200},
			[]string{"✖ queue pods stands still: a bug\n  fix:   report the error with the log of the operator, and restart its pod"},
			[]string{"next:"},
		},
		"a problem with a fix and a command": {
			inspect.Status{Live: true, Attention: true, Problems: []inspect.Problem{{Kind: inspect.Kind(store.SharedObject), Object: "x", At: statusTime.Add(-48 * time.Hour), Error: "two modules have Secret x", Fix: "remove one", More: 2, Command: []string{"reload"}, Effect: "converges"}}},
			inspect.Layout{Program: "addon-operator"},
			[]string{"✖ two modules have Secret x; 2 others have the same problem; since 2026-02-27\n  12:00:00Z\n  fix: remove one\n  or:  addon-operator reload\n       # this converges\n"},
			nil,
		},
		"modules": {
			inspect.Status{Live: true, Modules: []inspect.StatusModule{
				{Name: "web", ModuleStatus: inspect.ModuleStatus{State: inspect.ModuleOn}, Revision: 4, LastRunAt: statusTime.Add(-25 * time.Hour)},
				{Name: "db", ModuleStatus: inspect.ModuleStatus{State: inspect.ModulePaused, Reason: "paused by ann: disk", Since: statusTime.Add(-30 * time.Second)}},
				{Name: "off", ModuleStatus: inspect.ModuleStatus{State: inspect.ModuleOff}},
			}},
			inspect.Layout{Wide: true, Width: 120},
			[]string{"modules   1 paused, 1 on, 1 off\n", "web     on      -      1d01h ago  4\n", "db      paused  30s    -          -         paused by ann: disk\n"},
			nil,
		},
	} {
		c.status.At = statusTime
		text := inspect.StatusText(&c.status, c.layout)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the status lacks %q:\n%s", name, want, text)
			}
		}
		for _, lacks := range c.lacks {
			if strings.Contains(text, lacks) {
				t.Errorf("%s: the status has %q:\n%s", name, lacks, text)
			}
		}
	}
}

// TestEveryListOfAStatusIsCutToTheScreenAndCountsWhatIsLeftOut shows a status with 30 rows in each list on screens of
// different heights. For each shown list, the number of shown rows and the stated number of omitted rows must add up to
// 30.
func TestEveryListOfAStatusIsCutToTheScreenAndCountsWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	const rows = 30
	s := &inspect.Status{At: statusTime, Live: true, Attention: true}
	for i := range rows {
		name := fmt.Sprintf("thing-%02d", i)
		s.Modules = append(s.Modules, inspect.StatusModule{Name: name, ModuleStatus: inspect.ModuleStatus{State: inspect.ModulePending, Reason: "its first run has not started"}})
		s.Queues = append(s.Queues, waitingQueue(name, 1, &inspect.Wait{For: inspect.ForModules, Held: &store.Reason{Detail: "waits for modules"}}))
		s.Running = append(s.Running, inspect.StatusTask{Ref: inspect.Ref{Task: store.ID{Epoch: 1, N: uint64(i)}, Node: "module-run", Subject: graph.Subject{Module: name}}, Since: statusTime}) //nolint:gosec // the number is small
		s.Problems = append(s.Problems, inspect.Problem{Kind: inspect.KindStalled, Queue: name, Error: "a bug"})
	}
	left := regexp.MustCompile(`(?m)^  … and (\d+) more (problem|module|queue|task)s?; see them with addon-operator status -o wide$`)
	for _, height := range []int{0, 5, 30, 60, 200} {
		text := inspect.StatusText(s, inspect.Layout{Program: "addon-operator", Height: height})
		most := height
		if height == 0 {
			most = 23
		}
		if lines := strings.Count(text, "\n"); lines > max(most, 11) {
			t.Errorf("%d lines on a screen of %d:\n%s", lines, height, text)
		}
		omitted := map[string]int{}
		for _, m := range left.FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			omitted[m[2]] = n
		}
		for what, row := range map[string]string{"problem": "stands still", "module": "pending  -", "queue": "1m00s       module-run", "task": "  0s     0"} {
			shown := strings.Count(text, row)
			if heading := shown > 0; shown+omitted[what] != rows && (heading || what == "problem") {
				t.Errorf("height %d: %d rows for a %s are shown, and %d are said to be left out:\n%s", height, shown, what, omitted[what], text)
			}
		}
	}
	wide := inspect.StatusText(s, inspect.Layout{Wide: true, Height: 5})
	if strings.Count(wide, "stands still") != rows || strings.Count(wide, "pending  -") != rows || left.MatchString(wide) {
		t.Errorf("a wide status leaves rows out:\n%s", wide)
	}
}

func TestSizesSpansAndTimesHaveTheirUnits(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 12 << 20: "12.0 MiB", 3 << 30: "3.0 GiB", 2 << 40: "2.0 TiB", 5 << 50: "5120.0 TiB"} {
		if got := inspect.Size(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 99 * time.Millisecond: "0.0s", 9999 * time.Millisecond: "9.9s", 10 * time.Second: "10s", 59999 * time.Millisecond: "59s",
		time.Minute: "1m00s", time.Hour - time.Second: "59m59s", time.Hour: "1h00m", 24*time.Hour - time.Minute: "23h59m", 24 * time.Hour: "1d00h", 400*24*time.Hour + 5*time.Hour: "400d05h",
	} {
		if got := inspect.Span(d); got != want || len(got) > 7 {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestTextOfOtherScriptsKeepsItsColumns(t *testing.T) {
	t.Parallel()
	l := inspect.Layout{Width: 60}
	const head = "NAME    REASON\n模块    x\ne\u0301té     y\nmodule  長い"
	text := l.Table([][]string{{"NAME", "REASON"}, {"模块", "x"}, {"e\u0301té", "y"}, {"module", strings.Repeat("長い", 60)}})
	for line := range strings.Lines(text) {
		n := 0
		for _, r := range strings.TrimSuffix(line, "\n") {
			switch {
			case r >= 0x3000:
				n += 2
			case r != '\u0301':
				n++
			}
		}
		if n > 60 {
			t.Errorf("a line has %d columns, want at most 60: %q", n, line)
		}
	}
	if !strings.HasPrefix(text, head) {
		t.Errorf("the columns are not aligned:\n%s", text)
	}
}

func TestOutputIsPrintedWithoutWhatATerminalInterprets(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"":                                   "",
		"plain\n  indented  \nlast":          "plain\n  indented\nlast",
		"\x1b[31mred\x1b[0m \x1b[2J\x1b[Hup": "red up",
		"bell\x07 tab\tcr\r\nnext":           "bell  tab cr\nnext",
		"half \x1b[":                         "half  [",
		"ünïcode 長い":                         "ünïcode 長い",
	} {
		if got := inspect.Printable(output); got != want {
			t.Errorf("%q is printed as %q, want %q", output, got, want)
		}
	}
}
