package hook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"addon-operator/internal/hook"
)

// TestMain runs the tests. If the environment variable HOOK_TEST_AS is set, this process runs no tests, but acts as an
// operator: it either runs one hook or kills leftover processes.
func TestMain(m *testing.M) {
	switch os.Getenv("HOOK_TEST_AS") {
	case "operator":
		asOperator()
	case "cleaner":
		killed, err := hook.KillLeftovers(os.Getenv("ADDON_OPERATOR_STORE_ID"))
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString("alive " + strconv.Itoa(len(killed)) + "\n")
	default:
		runtime.LockOSThread() // the first thread of a process cannot end, so it must not be the thread that starts the hooks
		code := m.Run()
		if err := leaked(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}
}

// leaked returns an error that names the goroutines that do not end. It waits for goroutines that are about to end,
// which can take seconds on a busy machine.
func leaked() (err error) {
	for began := time.Now(); time.Since(began) < time.Minute; {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}

func asOperator() {
	r, err := hook.NewRunner(hook.Options{TempDir: os.Getenv("HOOK_TEST_TEMP"), StoreID: os.Getenv("HOOK_TEST_STORE")})
	if err != nil {
		panic(err)
	}
	_, err = r.Run(context.Background(), hook.Run{
		File:   hook.File{Name: "x", Path: os.Getenv("HOOK_TEST_PATH")},
		Output: func(_ hook.Stream, line string) { os.Stdout.WriteString(line + "\n") },
	})
	if err != nil {
		panic(err)
	}
}

// killPrinted kills the process whose ID is in text, which a hook has written, and returns the ID. If the process does
// not exist, killPrinted returns 0.
func killPrinted(t *testing.T, text []byte) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0
	}
	return pid
}

// waitGone waits until the process with this ID has ended. If it does not end soon, the test fails.
func waitGone(t *testing.T, number string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		// Before Linux 6.16, EINVAL means that the process has ended, but other processes of its process group have
		// not.
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 90_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			t.Errorf("process %d is still there", pid)
		}
		return
	}
}

// untilPrinted returns a context and a function that ends it. With the function as Run.Output, the context ends when
// the hook prints a line.
func untilPrinted(t *testing.T) (context.Context, func(hook.Stream, string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, func(hook.Stream, string) { cancel() }
}

func TestHookThatEndsInItsGraceIsNotInterrupted(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{TermAfter: 5 * time.Minute, KillAfter: 6 * time.Minute})
	ctx, output := untilPrinted(t)
	for body, want := range map[string]string{
		`echo go; sleep 0.05; echo done > "$METRICS_PATH"`: "",
		`echo go; sleep 0.05; exit 4`:                      "exit status 4",
	} {
		run := scriptRun(t, body)
		run.Output = output
		ctx := ctx
		if want != "" {
			ctx, run.Output = untilPrinted(t)
		}
		result, err := r.Run(ctx, run)
		if want == "" && (err != nil || string(result.Metrics) != "done\n") {
			t.Errorf("%s: %q, %v", body, result.Metrics, err)
		}
		if want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: error is %v, want %s", body, err, want)
		}
	}
}

func TestSignalledHookWasInterruptedWhateverItExitsWith(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"dies of the signal": `echo go; sleep 30`,
		"exits with 0":       `trap 'echo patch > "$VALUES_JSON_PATCH_PATH"; exit 0' TERM; echo go; for _ in {1..1500}; do sleep 0.02; done`,
		"exits with 1":       `trap 'echo oh >&2; exit 1' TERM; echo go; for _ in {1..1500}; do sleep 0.02; done`,
	} {
		r := newRunner(t, hook.Options{TermAfter: time.Millisecond, KillAfter: time.Minute})
		ctx, output := untilPrinted(t)
		run := scriptRun(t, body)
		run.Output = output
		result, err := r.Run(ctx, run)
		if !errors.Is(err, hook.ErrInterrupted) {
			t.Errorf("%s: error is %v, want it interrupted", name, err)
		}
		var exit *hook.ExitError
		if errors.As(err, &exit) || result.ValuesPatch != nil {
			t.Errorf("%s: the error says that the hook ended by itself: %v, %q", name, err, result.ValuesPatch)
		}
	}
}

func TestHookThatIgnoresSIGTERMIsKilledWithAllItStarted(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{TermAfter: time.Millisecond, KillAfter: 30 * time.Millisecond, Drain: 50 * time.Millisecond})
	run := scriptRun(t, `trap '' TERM; sleep 1000 & echo $!; wait; for _ in {1..1000}; do sleep 1; done`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var child string
	run.Output = func(_ hook.Stream, line string) { child = line; cancel() }
	_, err := r.Run(ctx, run)
	if !errors.Is(err, hook.ErrInterrupted) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error is %v, want it interrupted by a kill", err)
	}
	waitGone(t, child)
}

func TestChildThatOutlivesAnInterruptedHookIsKilled(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{TermAfter: time.Millisecond, KillAfter: time.Minute, Drain: 50 * time.Millisecond})
	run := scriptRun(t, `(trap '' TERM; echo $BASHPID; for _ in {1..20000}; do sleep 0.05; done) & trap 'exit 0' TERM; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var child string
	run.Output = func(_ hook.Stream, line string) { child = line; cancel() }
	if _, err := r.Run(ctx, run); !errors.Is(err, hook.ErrInterrupted) {
		t.Errorf("error is %v, want it interrupted", err)
	}
	waitGone(t, child)
}

func TestNothingIsStartedWhenTheContextIsDone(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		run := scriptRun(t, `echo ran >> "$(dirname "$0")/ran"`)
		if _, err := r.Run(ctx, run); !errors.Is(err, hook.ErrInterrupted) {
			t.Errorf("error is %v, want it interrupted", err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(run.File.Path), "ran")); err == nil {
			t.Fatal("the hook ran")
		}
	}
}

// operator starts this test binary as an operator that runs a hook with this body. operator returns the command, and a
// scanner of the lines that the hook prints.
func operator(t *testing.T, store, body string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "HOOK_TEST_AS=operator", "HOOK_TEST_STORE="+store, "HOOK_TEST_TEMP="+t.TempDir(),
		"HOOK_TEST_PATH="+script(t, filepath.Join(t.TempDir(), "hook.sh"), body))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the process was killed, so Wait returns an error
	})
	return cmd, bufio.NewScanner(out)
}

func TestHookDiesWithItsOperator(t *testing.T) {
	t.Parallel()
	cmd, out := operator(t, "", `echo $$; for _ in {1..20000}; do sleep 0.05; done`)
	if !out.Scan() {
		t.Fatal("the hook printed nothing")
	}
	pid := out.Text()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitGone(t, pid)
}

func TestHooksOutliveTheThreadsOfTheOperator(t *testing.T) {
	t.Parallel()
	r := newRunner(t, hook.Options{})
	for range 10 {
		endThreads()
		run := scriptRun(t, `echo started; read -r < go`)
		path := filepath.Join(filepath.Dir(run.File.Path), "go")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		fifo, err := os.OpenFile(path, os.O_RDWR, 0) // opening only for writing would wait for the hook, which may have ended
		if err != nil {
			t.Fatal(err)
		}
		defer fifo.Close()
		run.Output = func(hook.Stream, string) {
			endThreads()
			_, _ = fifo.WriteString("go\n")
		}
		if _, err := r.Run(t.Context(), run); err != nil {
			t.Errorf("the hook died with a thread: %v", err)
		}
	}
}

// endThreads ends most idle threads of this process: when a goroutine ends while it is locked to
// its thread, the thread ends too.
func endThreads() {
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			runtime.LockOSThread()
			runtime.Gosched()
		})
	}
	all.Wait()
}

func TestLeftoversOfAKilledOperatorAreKilled(t *testing.T) {
	t.Parallel()
	store := "store-" + strconv.Itoa(os.Getpid())
	// The child process has a session of its own, so it gets no signal to the hook or to the process group of the
	// hook. It starts other processes.
	cmd, out := operator(t, store, `setsid bash -c 'echo $$; for _ in {1..12000}; do (sleep 0.01); done' & wait`)
	if !out.Scan() {
		t.Fatal("the hook printed nothing")
	}
	left := out.Text()
	_, foreign := operator(t, store+"0", `setsid bash -c 'echo $$; exec sleep 120' & wait`)
	if !foreign.Scan() {
		t.Fatal("the other store's hook printed nothing")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(number(t, left), 0); err != nil {
		t.Fatalf("the leftover is gone before it was looked for: %v", err)
	}

	killed, err := hook.KillLeftovers(store)
	if err != nil {
		t.Fatal(err)
	}
	if len(killed) == 0 {
		t.Error("nothing was killed")
	}
	waitGone(t, left)
	if err := syscall.Kill(number(t, foreign.Text()), 0); err != nil {
		t.Errorf("the process of another store is gone: %v", err)
	}
	if killed, err := hook.KillLeftovers(store + "0"); err != nil || len(killed) == 0 {
		t.Errorf("the other store's: killed %v, %v", killed, err)
	}
	if killed, err := hook.KillLeftovers(store); err != nil || len(killed) != 0 {
		t.Errorf("a second time: killed %v, %v", killed, err)
	}
}

func TestALeftoverIsKilledWhileItStartsAProgram(t *testing.T) {
	t.Parallel()
	store := "exec-" + strconv.Itoa(os.Getpid())
	for range 30 {
		again := `exec /bin/sh -c "$0" "$0"`
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", again, again)
		cmd.Env = append(os.Environ(), "ADDON_OPERATOR_STORE_ID="+store)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // the process is killed, so Wait returns an error
		}()
		killed, err := hook.KillLeftovers(store)
		if err != nil || !slices.Equal(killed, []int{cmd.Process.Pid}) {
			_ = cmd.Process.Kill()
			t.Fatalf("killed %v, %v; want process %d", killed, err, cmd.Process.Pid)
		}
		<-ended
	}
}

func TestKillLeftoversDoesNotKillItself(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "HOOK_TEST_AS=cleaner", "ADDON_OPERATOR_STORE_ID=own-"+strconv.Itoa(os.Getpid()))
	out, err := cmd.Output()
	if err != nil || string(out) != "alive 0\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
	if _, err := hook.KillLeftovers(""); err == nil {
		t.Error("an empty store id is accepted")
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
