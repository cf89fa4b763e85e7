package jq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"addon-operator/internal/jq"
)

// helperProcesses returns the process IDs of the helpers that this process has started.
func helperProcesses(t testing.TB) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil || strings.Trim(string(text), "\x00") != "addon-operator-jq" {
			continue // not a helper, or already ended
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// resident returns the maximum resident memory that the process with this ID has had so far, in bytes.
func resident(t *testing.T, pid int) (peak int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	rest, _, _ = strings.Cut(rest, "kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// stopHelpers waits until this process has at least n helpers, sends SIGSTOP to all helpers, and returns their process
// IDs. At the end of the test, the helpers get SIGCONT.
func stopHelpers(t *testing.T, n int) (pids []int) {
	t.Helper()
	for began := time.Now(); len(pids) < n; time.Sleep(time.Millisecond) {
		if pids = helperProcesses(t); time.Since(began) > 90*time.Second {
			t.Fatalf("%d helpers, want %d", len(pids), n)
		}
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
	return pids
}

func compile(t testing.TB, program string) *jq.Filter {
	t.Helper()
	filter, err := jq.Compile(program)
	if err != nil {
		t.Fatal(err)
	}
	return filter
}

// TestAFilterThatNeedsTooMuchMemoryFailsAlone concurrently applies filters that need much more memory than a helper may
// have. Each of them must fail with an error that names the limit that it exceeds. A filter that is applied after them
// must not fail, and the memory of this process must not grow much.
func TestAFilterThatNeedsTooMuchMemoryFailsAlone(t *testing.T) {
	if withRace {
		t.Skip("the race detector ends helper processes that reach their limit")
	}
	before := resident(t, os.Getpid())
	hungry := []string{
		`[range(.n)] | length`,
		`"x" * .n | length`,
		`reduce range(.n) as $i ([]; . + [$i, $i]) | length`,
		`[limit(.n; repeat("some text"))] | length`,
		`[] | setpath([60000000]; 1) | length`,
		`reduce range(60) as $i ([.]; . + .) | length`,
		`[.n as $n | range($n) | {a: ., b: [.]}] | map(tojson) | join("")`,
	}
	var all sync.WaitGroup
	for _, program := range hungry {
		all.Go(func() {
			got, err := compile(t, program).Apply(t.Context(), input(`{"n": 200000000}`))
			failure := (*jq.FilterError)(nil)
			if !errors.As(err, &failure) || !failure.Bound {
				t.Errorf("%s: %.100s, %v, want a failure that tells the bound", program, got, err)
				return
			}
			if !strings.Contains(err.Error(), "128 MiB") && !strings.Contains(err.Error(), "5s of CPU time") && !strings.Contains(err.Error(), "outputs") {
				t.Errorf("%s: %v, which names no bound", program, err)
			}
		})
	}
	all.Wait()
	if got, err := compile(t, `.n + 1 | tostring`).Apply(t.Context(), input(`{"n": 1}`)); string(got) != `"2"` || err != nil {
		t.Errorf("a filter after them: %s, %v", got, err)
	}
	if grown := resident(t, os.Getpid()) - before; grown > 64<<20 {
		t.Errorf("this process has grown by %d MiB", grown>>20)
	}
}

// TestAHelperNeverHasMoreMemoryThanItsLimit applies a filter that needs nearly all memory of a helper.
// The filter must not fail, and the helper must not use more than 160 MiB.
func TestAHelperNeverHasMoreMemoryThanItsLimit(t *testing.T) {
	if _, err := compile(t, `reduce range(23) as $_ ("a"; . + .), [range(1000)]`).Apply(t.Context(), input(`null`)); err != nil {
		t.Fatal(err)
	}
	pids := helperProcesses(t)
	if len(pids) == 0 || len(pids) > 2 {
		t.Fatalf("%d helpers", len(pids))
	}
	for _, pid := range pids {
		if peak := resident(t, pid); peak > 160<<20 {
			t.Errorf("a helper had %d MiB", peak>>20)
		}
	}
}

// TestAFilterMayTakeLongOnALoadedMachine stops a helper that runs a filter. The stop takes longer than the maximum CPU
// time of a filter. The filter must not fail.
func TestAFilterMayTakeLongOnALoadedMachine(t *testing.T) {
	done := make(chan error, 1)
	filter := compile(t, `last(range(300000))`)
	go func() {
		_, err := filter.Apply(t.Context(), input(`null`))
		done <- err
	}()
	pids := stopHelpers(t, 1)
	time.Sleep(6500 * time.Millisecond)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT) // fails if the helper has already ended
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAFilterThatDoesNotEndHoldsUpNobody applies as many endless filters as there may be helpers. A plain filter must
// not wait for them, and a filter that needs a helper must get one after them.
func TestAFilterThatDoesNotEndHoldsUpNobody(t *testing.T) {
	var all sync.WaitGroup
	var ended atomic.Int32
	for range 2 {
		all.Go(func() {
			defer ended.Add(1)
			// The comparison of two nested values cannot be interrupted.
			_, err := compile(t, `reduce range(200) as $_ (1; [., .]) | [., .] | .[0] == (.[1] | map(.))`).Apply(t.Context(), input(`null`))
			if err == nil || !strings.Contains(err.Error(), "needs more than 5s of CPU time") {
				t.Errorf("a filter that does not end: %v", err)
			}
		})
	}
	helpers := stopHelpers(t, 2) // while the helpers are stopped, their filters do not end
	if got, err := compile(t, `.spec.replicas`).Apply(t.Context(), input(`{"spec":{"replicas":3}}`)); string(got) != `3` || err != nil {
		t.Errorf("a plain filter beside them: %s, %v", got, err)
	}
	if ended.Load() > 0 {
		t.Error("a plain filter waited for them")
	}
	for _, pid := range helpers {
		_ = syscall.Kill(pid, syscall.SIGCONT) // fails if the helper has already ended
	}
	if got, err := compile(t, `.spec.replicas + 1`).Apply(t.Context(), input(`{"spec":{"replicas":3}}`)); string(got) != `4` || err != nil {
		t.Errorf("a filter that waits for a helper: %s, %v", got, err)
	}
	all.Wait()
}

// TestAKilledHelperIsReplaced kills helpers that run no filter, and a helper that runs a filter. This filter, and the
// filters that are applied after a kill, must not fail.
func TestAKilledHelperIsReplaced(t *testing.T) {
	filter := compile(t, `.a + 1`)
	for range 3 {
		if got, err := filter.Apply(t.Context(), input(`{"a":1}`)); string(got) != `2` || err != nil {
			t.Fatalf("%s, %v", got, err)
		}
		for _, pid := range helperProcesses(t) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails if the helper has already ended
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		slow := compile(t, `reduce range(300000) as $i (0; . + $i)`)
		if got, err := slow.Apply(t.Context(), input(`null`)); string(got) != `44999850000` || err != nil {
			t.Errorf("a filter whose helper was killed once: %s, %v", got, err)
		}
	})
	time.Sleep(50 * time.Millisecond)
	for _, pid := range helperProcesses(t) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	all.Wait()
}

// TestFiltersThatOnlySelectNeedNoHelper kills all helpers and applies only plain filters. Then this process must have
// no helpers.
func TestFiltersThatOnlySelectNeedNoHelper(t *testing.T) {
	for len(helperProcesses(t)) > 0 {
		for _, pid := range helperProcesses(t) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	const object = `{"metadata":{"name":"a","labels":{"x/y":"1"}},"spec":{"replicas":3,"ports":[{"port":80},{"port":443}]},
		"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	for program, want := range map[string]string{
		`.spec.replicas`:                   `3`,
		`.metadata.labels["x/y"]`:          `"1"`,
		`.metadata.labels."x/y" // "none"`: `"1"`,
		`{name: .metadata.name, ready: (.status.conditions[]? | select(.type == "Ready") | .status)}`: `{"name":"a","ready":"True"}`,
		`[.spec.ports[] | select(.port > 100 and .port < 500) | .port]`:                               `[443]`,
		`any(.status.conditions[]?; .type == "Ready" and .status == "True")`:                          `true`,
		`if .spec.replicas == 3 then "three" else empty end`:                                          `"three"`,
		`.spec.ports | map(.port)`:         `[80,443]`,
		`.metadata.name | startswith("a")`: `true`,
	} {
		if got, err := compile(t, program).Apply(t.Context(), input(object)); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", program, got, err, want)
		}
	}
	if pids := helperProcesses(t); len(pids) > 0 {
		t.Errorf("helpers run: %v", pids)
	}
}

// TestAPlainFilterOverItsStepsRunsInAHelper applies a plain filter that needs more than maxSteps steps. It must run in
// a helper and not fail.
func TestAPlainFilterOverItsStepsRunsInAHelper(t *testing.T) {
	alternatives := strings.TrimSuffix(strings.Repeat(".,", 40), ",")
	program := fmt.Sprintf("[(%s) | (%s) | (%s) | select(. == 2)] | length", alternatives, alternatives, alternatives)
	if got, err := compile(t, program).Apply(t.Context(), input(`1`)); string(got) != `0` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if len(helperProcesses(t)) == 0 {
		t.Error("no helper ran it")
	}
}

// TestFiltersGiveTheSameInBothPlaces runs plain programs in this process and, in a helper, equivalent programs that
// are not plain. Their results and their errors must be equal.
func TestFiltersGiveTheSameInBothPlaces(t *testing.T) {
	const object = `{"b":[1,2.50,123456789012345678901234567890,"ä&<"],"a":{"z":null,"y":true},"e":1e400}`
	for _, program := range []string{`.`, `.b`, `.b[]`, `.a.x`, `empty`, `{c: .b[], d: .a}`, `.b[0].x`, `.nothing[]`, `.b | .["x"]`} {
		here, errHere := compile(t, program).Apply(t.Context(), input(object))
		there, errThere := compile(t, "("+program+") | . as $x | $x").Apply(t.Context(), input(object))
		if string(here) != string(there) || (errHere == nil) != (errThere == nil) {
			t.Errorf("%s: here %s, %v; there %s, %v", program, here, errHere, there, errThere)
		}
		public := func(err error) string {
			if f := (*jq.FilterError)(nil); errors.As(err, &f) {
				return f.Public
			}
			return fmt.Sprint(err)
		}
		if public(errHere) != public(errThere) {
			t.Errorf("%s: here %q, there %q", program, public(errHere), public(errThere))
		}
	}
}

func TestAnInterruptedFilterHasNotFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, program := range []string{`.a`, `.a + 1`} {
		_, err := compile(t, program).Apply(ctx, input(`{"a":1}`))
		if failure := (*jq.FilterError)(nil); errors.As(err, &failure) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a":"b"}},"data":{` + `"k":"` + strings.Repeat("v", 4000) + `"}}`
	for name, program := range map[string]string{"here": `.data`, "helper": `.data | to_entries | map(.key)`} {
		b.Run(name, func(b *testing.B) {
			filter := compile(b, program)
			for b.Loop() {
				if _, err := filter.Apply(b.Context(), jq.NewInput([]byte(object))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
