package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/disk"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A plan says what happens in a storm test and when. The times kill, trigger and full are relative to the beginning of
// the load.
type plan struct {
	length  time.Duration // duration of the load
	kill    time.Duration // time of the SIGKILL that the test sends
	trigger time.Duration // time of the first event for the hook that kills the operator
	full    time.Duration // time at which the disk becomes full
	fullFor time.Duration
	again   time.Duration // delay of another SIGKILL, after crashHook is released from quarantine
	early   bool          // whether the load begins when the operator starts, not after its first converge
}

// newPlan draws a random plan. length is the duration of the load, and fullFor is the time for which the disk is full.
func newPlan(random *rand.Rand, length, fullFor time.Duration) plan {
	part := func(of time.Duration) time.Duration { return time.Duration(random.Float64() * float64(of)) }
	return plan{
		length: length, kill: part(length), trigger: part(length / 3), full: part(length - fullFor), fullFor: fullFor,
		again: part(2 * time.Second), early: random.IntN(2) == 0,
	}
}

// TestStormLosesNothing runs one operator through a storm: 10 modules, named queues, up to 300 changes of objects a
// second, a full disk, edits of the ConfigMap, a hook that kills the operator, and SIGKILLs at random times. At the
// end, each change of an object must have been delivered, unless the operator may coalesce or drop its event. The
// changes of one object must have been delivered in order, and each delivery must match a change. The history must have
// the end of each task. Only the hook that kills the operator may have been quarantined. If the environment variable
// STORMS is set, its value is the number of rounds, and each round takes longer: the disk is full for 20 s instead of
// 4 s. STORM_SEED repeats the rounds of the test that has logged this seed.
func TestStormLosesNothing(t *testing.T) { //nolint:paralleltest // the test uses all CPUs
	rounds, length, fullFor := 1, 14*time.Second, 4*time.Second
	if text := os.Getenv("STORMS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("STORMS=%q is no number of rounds", text)
		}
		length, fullFor = 40*time.Second, 20*time.Second
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("STORM_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("STORM_SEED: %v", err)
		}
	}
	for i := range rounds {
		seed := seed + uint64(i) //nolint:gosec // i is small
		t.Run(fmt.Sprintf("STORM_SEED=%d", seed), func(t *testing.T) {
			stormRound(t, seed, newPlan(rand.New(rand.NewPCG(seed, 0)), length, fullFor))
		})
	}
}

// A storm has the state of one round of [TestStormLosesNothing].
type storm struct {
	*environment
	disk       *disk.Disk
	supervisor *supervisor
	record     *stormRecord
	loads      []*load
	editor     *editor
	http       *http.Client // client for the operator's debug socket
}

func newStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	s := &storm{disk: disk.New(t, "64m"), environment: newEnvironment(t)}
	s.operator.StoreDir = s.disk.Dir
	if err := os.Mkdir(s.environment.record+".d", 0o700); err != nil {
		t.Fatal(err)
	}
	s.record = newStormRecord(s.environment.record)
	s.lay(t, stormFiles())
	at := s.client.CoreV1().ConfigMaps(s.operator.Namespace)
	all := sets()
	for _, set := range all {
		interval := time.Duration(len(all)-1) * time.Second / 200
		switch {
		case set.label == crashSet:
			interval = time.Second
		case set.coalesced:
			interval /= 6
		}
		s.loads = append(s.loads, newLoad(set, at, seed, interval))
	}
	s.editor = &editor{at: at, random: rand.New(rand.NewPCG(seed, 1)), data: map[string]string{}}
	s.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, // each request needs a new connection, because the operator may have been restarted
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.operator.Socket())
		},
	}}
	return s
}

func stormRound(t *testing.T, seed uint64, p plan) {
	t.Helper()
	s := newStorm(t, seed)
	t.Logf("plan: %+v", p)
	s.supervisor = supervise(t, s.environment)
	if !p.early {
		if err := s.supervisor.now().Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.rage(t, p)
	began := time.Now()
	s.rest(t, p)
	stopped := time.Now()
	t.Logf("all work was done after %s; the hook killed the operator %d times", stopped.Sub(began).Round(time.Millisecond), s.supervisor.deaths())
	if err := s.supervisor.stop(); err != nil {
		t.Error(err)
	}
	s.noHooks(t, false)
	s.check(t, stopped)
}

// arm makes the hook crashHook kill the operator whenever it runs.
func (s *storm) arm() error { return os.WriteFile(s.environment.record+".armed", nil, 0o600) }

func (s *storm) disarm() error { return os.Remove(s.environment.record + ".armed") }

// rage executes the plan p, up to the end of the load. Afterwards the disk has space again.
func (s *storm) rage(t *testing.T, p plan) {
	t.Helper()
	if err := s.arm(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), p.length)
	defer cancel()
	after := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-t.Context().Done():
			return false
		}
	}
	var counts time.Time
	converged := make(chan struct{})
	parts := []func() error{
		func() error {
			defer close(converged)
			if !p.early {
				return nil
			}
			err := s.wait(t.Context(), 2*time.Minute, func() error { return s.ready(t.Context()) })
			counts = time.Now()
			return err
		},
		func() error { return s.editor.run(ctx, 1500*time.Millisecond) },
		func() error {
			if !after(p.full) {
				return nil
			}
			return s.fillDisk(t.Context(), p.fullFor)
		},
		func() error {
			if !after(p.kill) {
				return nil
			}
			return s.kill(t.Context())
		},
	}
	for _, l := range s.loads {
		parts = append(parts, func() error {
			if l.set.label != crashSet {
				return l.run(ctx)
			}
			if !after(p.trigger) {
				return nil
			}
			<-converged // until the first converge ends, a change can be without an event, because the hook does not run on Synchronization
			least, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			return errors.Join(l.run(least), l.run(ctx))
		})
	}
	if err := errors.Join(append(together(parts...), s.supervisor.err())...); err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, l := range s.loads {
		l.counts = counts
		changes += len(l.changes)
	}
	t.Logf("%d changes of objects, %d edits of the ConfigMap", changes, s.editor.level)
}

// fillDisk keeps the disk full for at least fullFor, and until the operator has logged that the disk is full.
func (s *storm) fillDisk(ctx context.Context, fullFor time.Duration) error {
	const most = 90 * time.Second
	full := func() int { return strings.Count(s.operator.Log(), "disk full: no task starts") }
	before := full()
	filling, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.disk.Fill(filling) }()
	began := time.Now()
	for time.Since(began) < fullFor || full() == before {
		if err := s.supervisor.err(); err != nil {
			return err
		}
		if time.Since(began) > most {
			return fmt.Errorf("the operator did not notice within %s that its disk is full", most)
		}
		select {
		case err := <-done:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	stop()
	return <-done
}

// kill kills the operator. If the hook crashHook has already killed two processes, kill first waits until the hook is
// in quarantine and the converge has ended. Without this wait, the kill could be the third interruption of another
// task, which would then be quarantined, too.
func (s *storm) kill(ctx context.Context) error {
	if s.supervisor.killUnless(2) {
		return nil
	}
	if err := s.wait(ctx, 2*time.Minute, func() error {
		if _, err := s.quarantined(ctx); err != nil {
			return err
		}
		return s.ready(ctx)
	}); err != nil {
		return fmt.Errorf("wait for a time at which a kill quarantines no task: %w", err)
	}
	s.supervisor.killUnless(1 << 30)
	return nil
}

// wait calls the given function every 50 ms until the function returns nil. wait returns an error if the
// function still fails after the duration in the argument most, or if the supervisor has given up restarting the
// operator.
func (s *storm) wait(ctx context.Context, most time.Duration, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if failure := s.supervisor.err(); failure != nil {
			return failure
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", most, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A problem is one problem that the operator reports on its debug socket.
type problem struct {
	Kind    string        `json:"kind"`
	Task    store.ID      `json:"task"`
	Subject graph.Subject `json:"subject"`
	Error   string        `json:"error"`
}

func (s *storm) problems(ctx context.Context) ([]problem, error) {
	var page struct {
		Problems []problem `json:"problems"`
	}
	return page.Problems, s.get(ctx, "/workflow/inspect.json", &page)
}

// get requests path from the operator's debug socket, and decodes the response into the given value.
func (s *storm) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() // an error does not matter, because the body has been read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// quarantined returns the id of the quarantined task of crashHook. quarantined returns an error if no task of this
// hook is in quarantine, or if a task of another hook is.
func (s *storm) quarantined(ctx context.Context) (id store.ID, err error) {
	problems, err := s.problems(ctx)
	if err != nil {
		return id, err
	}
	for _, p := range problems {
		if p.Kind != "quarantined" {
			continue
		}
		if p.Subject.Module+"/"+p.Subject.Hook != crashHook {
			return id, fmt.Errorf("%v is in quarantine", p.Subject)
		}
		id = p.Task
	}
	if id.IsZero() {
		return id, fmt.Errorf("%s is not in quarantine; problems: %+v", crashHook, problems)
	}
	return id, nil
}

// ready waits up to a second, and returns an error if the first converge of the current process has not ended by then.
func (s *storm) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.supervisor.now().Ready(ctx)
}

// rest waits until the hook that kills the operator is in quarantine. Then it repairs the hook and releases its task
// from quarantine. It kills the operator once more, and waits until all work is done.
func (s *storm) rest(t *testing.T, p plan) {
	t.Helper()
	const patience = 3 * time.Minute
	var id store.ID
	if err := s.wait(t.Context(), patience, func() (err error) {
		if id, err = s.quarantined(t.Context()); err != nil {
			return err
		}
		return s.ready(t.Context())
	}); err != nil {
		t.Fatalf("wait for the quarantine: %v", err)
	}
	if err := s.disarm(); err != nil {
		t.Fatal(err)
	}
	release := exec.CommandContext(t.Context(), s.operator.Program, "task", "release", id.String(), "--debug-unix-socket", s.operator.Socket())
	if out, err := release.CombinedOutput(); err != nil {
		t.Fatalf("task release %s: %v: %s", id, err, out)
	}
	time.Sleep(p.again)
	s.supervisor.killUnless(1 << 30)
	if err := s.wait(t.Context(), patience, func() error { return s.resting(t.Context()) }); err != nil {
		t.Errorf("the operator did not finish its work: %v", err)
	}
}

// resting returns nil if the operator has no work left. Otherwise it returns an error that names the remaining work.
func (s *storm) resting(ctx context.Context) error {
	if err := s.record.update(); err != nil {
		return err
	}
	for _, l := range s.loads {
		left := s.record.differences(l)
		if l.set.module() != toggled {
			left = s.record.missing(l)
		}
		if len(left) > 0 {
			return fmt.Errorf("%s has yet to receive %d changes, for example %q", l.set.hook, len(left), left[:min(len(left), 20)])
		}
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	var queues struct {
		Active []struct {
			Name  string `json:"name"`
			Tasks []struct {
				Description string `json:"description"`
			} `json:"tasks"`
		} `json:"active"`
		Summary struct {
			TotalTasks int `json:"totalTasks"`
		} `json:"summary"`
	}
	if err := s.get(ctx, "/queue/list.json", &queues); err != nil {
		return err
	}
	if queues.Summary.TotalTasks > 0 {
		return fmt.Errorf("%d tasks are pending: %+v", queues.Summary.TotalTasks, queues.Active)
	}
	problems, err := s.problems(ctx)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("problems: %+v", problems)
	}
	return errors.Join(err, s.config(ctx))
}

// config returns an error if the release of a module was not rendered with the last edit of the operator's ConfigMap.
func (s *storm) config(ctx context.Context) error {
	var errs []error
	for _, name := range stormModules() {
		c, err := s.client.CoreV1().ConfigMaps(s.operator.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		level := strconv.Itoa(s.editor.level)
		if c.Data["level"] != level || c.Data["global"] != level {
			errs = append(errs, fmt.Errorf("the release of %s was rendered with %v, but the last edit has level %s", name, c.Data, level))
		}
	}
	return errors.Join(errs...)
}

// check compares the deliveries to hooks with the changes of objects, and compares both with the history in the store.
// stopped is the time at which the operator was stopped.
func (s *storm) check(t *testing.T, stopped time.Time) {
	t.Helper()
	if err := s.record.update(); err != nil {
		t.Fatal(err)
	}
	report := func(what string, wrong []string) {
		t.Helper()
		slices.Sort(wrong)
		const most = 40
		if len(wrong) > 0 {
			t.Errorf("%s (%d):\n\t%s", what, len(wrong), strings.Join(wrong[:min(len(wrong), most)], "\n\t"))
		}
	}
	for _, l := range s.loads {
		report("invented for "+l.set.hook, s.record.invented(l))
		report("wrong in the end for "+l.set.hook, s.record.differences(l))
		if l.set.module() != toggled {
			report("not delivered to "+l.set.hook, s.record.missing(l))
			report("out of order for "+l.set.hook, s.record.disorder(l))
		}
	}
	report("runs of hooks that were repeated silently", s.record.silentlyRepeated())
	if n := s.supervisor.deaths(); n < 1 || n > 3 {
		t.Errorf("the hook killed the operator %d times, want 1 to 3", n)
	}
	s.checkOperations(t)
	s.inStore(t, func(tx *store.Tx) error {
		h, wrong, err := readHistory(tx, stopped)
		t.Logf("%d runs in the history, %d events were coalesced", len(h.runs), h.coalesced())
		report("in the store", wrong)
		report("events with a wrong end in the history", h.events(s.record, s.loads))
		report("tasks with a wrong end in the history", h.tasks(s.record))
		return err
	})
}

// checkOperations checks the ConfigMap that each run of m03's hook writes: it must have the content of the last run. It
// also checks that the release of each module has exactly one revision that is not superseded, with status deployed.
func (s *storm) checkOperations(t *testing.T) {
	t.Helper()
	last, err := s.client.CoreV1().ConfigMaps(s.operator.Namespace).Get(t.Context(), "m03-last", metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	if want := s.record.last["m03/"+watchHook]; last.Data["context"] != want {
		t.Errorf("the object has the content of run %s of m03's hook, but the last run is %s", last.Data["context"], want)
	}
	secrets, err := s.client.CoreV1().Secrets(s.operator.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status!=superseded"})
	if err != nil {
		t.Error(err)
		return
	}
	status := map[string]string{}
	for _, secret := range secrets.Items {
		status[secret.Labels["name"]] += secret.Labels["status"]
	}
	want := map[string]string{}
	for _, name := range stormModules() {
		want[name] = "deployed"
	}
	if !maps.Equal(status, want) {
		t.Errorf("the releases are %v", status)
	}
}
