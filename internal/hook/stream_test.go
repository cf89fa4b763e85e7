package hook_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

// lines collects the lines that a hook prints in a run.
type lines struct {
	mu  sync.Mutex
	got []string
}

func (l *lines) add(stream hook.Stream, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, string(stream)+": "+line)
}

func (l *lines) of(stream hook.Stream) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, line := range l.got {
		if text, ok := strings.CutPrefix(line, string(stream)+": "); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func TestOutputArrivesLineByLineInOrder(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `
for i in {1..100}; do echo "out $i"; echo "err $i" >&2; done
printf 'with return\r\n\nno newline'
printf '%20000s\n' | tr ' ' x >&2
printf '%10000s\n' | tr ' ' y >&2`)
	var out lines
	run.Output = out.add
	if _, err := r.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	var wantOut, wantErr []string
	for i := range 100 {
		wantOut, wantErr = append(wantOut, fmt.Sprint("out ", i+1)), append(wantErr, fmt.Sprint("err ", i+1))
	}
	wantOut = append(wantOut, "with return", "", "no newline")
	wantErr = append(wantErr, strings.Repeat("x", 9999)+"…", strings.Repeat("y", 10000))
	if diff := cmp.Diff(wantOut, out.of(hook.Stdout)); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantErr, out.of(hook.Stderr)); diff != "" {
		t.Errorf("stderr (-want +got):\n%s", diff)
	}
}

func TestSlowReaderLosesNoOutput(t *testing.T) {
	t.Parallel()
	// When this hook has ended, its pipe is full of output that the runner has not read yet, and a child process keeps
	// the pipe open.
	r := newRunner(t, hook.Options{Drain: 50 * time.Millisecond})
	run := scriptRun(t, `seq 1 9000; sleep 30 & echo $! > "$METRICS_PATH"; disown`)
	var once sync.Once
	var got []string
	run.Output = func(_ hook.Stream, line string) {
		once.Do(func() { time.Sleep(300 * time.Millisecond) }) // longer than the duration of the hook and Drain together
		got = append(got, line)
	}
	result, err := r.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	killPrinted(t, result.Metrics)
	if len(got) != 9000 || got[8999] != "9000" {
		t.Errorf("%d lines came, the last is %q; want 9000", len(got), got[max(0, len(got)-1):])
	}
}

func TestGrandchildHoldingThePipesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{Drain: 50 * time.Millisecond})
	run := scriptRun(t, `echo before; sleep 1000 & echo $! > "$METRICS_PATH"; echo after`)
	var out lines
	run.Output = out.add
	start := time.Now()
	result, err := r.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 90*time.Second {
		t.Errorf("the run took %s", took)
	}
	if diff := cmp.Diff([]string{"before", "after"}, out.of(hook.Stdout)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	pid := killPrinted(t, result.Metrics)
	if pid <= 0 {
		t.Errorf("the process left behind by a hook that succeeded was not there any more")
	}
}

func TestOutputPipedThroughAnotherProcessStillArrives(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{Drain: time.Minute})
	run := scriptRun(t, `exec 2> >(sleep 0.1; sed s/^/said:/ >&2); echo "no route" >&2; exit 1`)
	_, err := r.Run(t.Context(), run)
	if err == nil || err.Error() != "exit status 1: said:no route" {
		t.Errorf("error is %v, want what the hook piped through sed", err)
	}
}

func TestNothingOfAFailedAttemptWorksOn(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{Drain: 50 * time.Millisecond})
	run := scriptRun(t, `sleep 1000 & echo $! >&2; exit 1`)
	_, err := r.Run(t.Context(), run)
	if err == nil {
		t.Fatal("exit 1 is success")
	}
	waitGone(t, strings.TrimPrefix(err.Error(), "exit status 1: "))
}

func TestOutputCallsComeOneAtATime(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	run := scriptRun(t, `(seq 1 500 >&2) & seq 1 500; wait`)
	var got []string // without a lock, so that concurrent calls are found by the race detector or by the number of lines
	run.Output = func(_ hook.Stream, line string) { got = append(got, line) }
	if _, err := r.Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1000 || slices.Contains(got, "") {
		t.Errorf("%d lines came, want 1000", len(got))
	}
}

func TestJSONOverSeveralLinesIsOneLineWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	run := scriptRun(t, `printf '{\n "msg":'; printf ' "a"\n}\n{ no\n{'`)
	for join, want := range map[bool][]string{
		false: {"{", ` "msg": "a"`, "}", "{ no", "{"},
		true:  {`{"msg":"a"}`, "{ no", "{"},
	} {
		var out lines
		run.Output = out.add
		if _, err := newRunner(t, hook.Options{JoinJSON: join}).Run(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.of(hook.Stdout)); diff != "" {
			t.Errorf("joined %t (-want +got):\n%s", join, diff)
		}
	}
}
