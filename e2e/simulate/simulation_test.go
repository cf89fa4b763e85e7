package simulate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/triggers"
)

// A simulation has the current process of the operator, and the models of everything outside of the operator.
type simulation struct {
	scheduler *scheduler
	network   *network
	hooks     *hooks
	checks    *checks
	disk      *store.Memory
	lastWrite time.Time // time of the last commit on the disk
	snapshots []snapshot
	dir       string // parent of the directories modules and global-hooks
	process   *process
	begun     time.Time

	parallel  int  // maximum number of modules that run in parallel
	continues bool // whether the engine continues after the failure of a module
	startup   triggers.StartMode

	full          bool // whether the disk is full
	crashIn       int  // number of commits until the process crashes; 0 if no crash is planned
	crashAfter    bool // whether the crash comes after the commit, not before it
	crashAtEffect bool // whether the process crashes instead of receiving the response to the next object operation of reporter
	crashing      bool // whether the process has crashed and must be started again
	fenced        bool // whether the process is expected to end without a crash
	boots         int
	term          term // term of the Lease for new processes
	rival         rival

	enabled  map[string]bool   // enabled modules according to the operator's ConfigMap
	settings map[string]string // value "setting" of each module in the operator's ConfigMap

	story *story
}

// A story is the sequence of events in a simulation, one on each line. Simulations of the same plan usually have the
// same story; see [mostPlays].
type story struct {
	mu        sync.Mutex
	begun     time.Time
	digest    hash.Hash
	lines     []string // empty if only the digest is kept
	keep      detail
	count     int
	violation string
}

// A detail says what a story records.
type detail int

const (
	digest detail = iota // only the digest of the lines
	lines
	gates // the lines, and a line for each gate that is opened
)

// newSimulation returns a simulation whose cluster has only namespaces. dir has the files of the modules. The operator
// does not run yet.
func newSimulation(seed uint64, dir string, keep detail) *simulation {
	w := &simulation{
		scheduler: newScheduler(seed), network: newNetwork(), disk: new(store.Memory), dir: dir, begun: time.Now(),
		term: shortTerm, enabled: map[string]bool{}, settings: map[string]string{},
		story: &story{begun: time.Now(), digest: sha256.New(), keep: keep},
	}
	if keep == gates {
		w.scheduler.opened = func(gate string) { w.note("scheduler", "opens %s", gate) }
	}
	w.hooks, w.checks = newHooks(w), newChecks(w)
	for _, name := range []string{"kube-system", namespace, "apps"} {
		w.network.server.put(address{resource: "namespaces", name: name}, nil, nil)
	}
	for _, module := range moduleNames {
		w.enabled[module], w.settings[module] = true, "initial"
	}
	return w
}

// note adds a line to the story. The line names actor, and format and args say what actor does.
func (w *simulation) note(actor, format string, args ...any) {
	s := w.story
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%s  %-22s %s", passed(time.Since(s.begun)), actor, fmt.Sprintf(format, args...))
	s.count++
	_, _ = s.digest.Write([]byte(line + "\n")) // the write never fails
	if s.keep != digest {
		s.lines = append(s.lines, line)
	}
}

// passed formats the duration d since the start of the simulation as a day and a time of day.
func passed(d time.Duration) string {
	day := d / (24 * time.Hour)
	return fmt.Sprintf("day %3d %s", day, time.Time{}.Add(d).Format("15:04:05.000"))
}

// violated records the first violation. Later violations are ignored, because they are likely
// consequences of the first one.
func (w *simulation) violated(format string, args ...any) {
	w.story.mu.Lock()
	first := w.story.violation == ""
	if first {
		w.story.violation = fmt.Sprintf(format, args...)
	}
	w.story.mu.Unlock()
	if first {
		w.note("VIOLATION", format, args...)
	}
}

func (w *simulation) wrong() string {
	w.story.mu.Lock()
	defer w.story.mu.Unlock()
	return w.story.violation
}

func (s *story) sum() string { return hex.EncodeToString(s.digest.Sum(nil)) }

// live continues the simulation for the simulated time d, or until a violation. It starts the operator again if its
// process ends as expected.
func (w *simulation) live(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) && w.wrong() == "" {
		if name := w.scheduler.next(); name == "" {
			w.scheduler.idle(end)
		}
		w.revive()
	}
}

// do calls fn in a goroutine, and continues the simulation until fn returns, until a violation, or for at most an hour.
// If the simulation stood still meanwhile, a gate at which fn waits would never be opened. If fn does not return, do
// returns an error.
func (w *simulation) do(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	for end := time.Now().Add(time.Hour); time.Now().Before(end) && w.wrong() == ""; {
		synctest.Wait()
		select {
		case err := <-done:
			return err
		default:
		}
		if w.scheduler.next() == "" {
			w.scheduler.idle(time.Now().Add(time.Second))
		}
		w.revive()
	}
	if violation := w.wrong(); violation != "" {
		return fmt.Errorf("the simulation has stopped before the call ended: %s", violation)
	}
	return errors.New("the call did not end within an hour")
}

// revive starts the operator again if its process has ended or has crashed. revive reports a violation if nothing
// explains the end.
func (w *simulation) revive() {
	synctest.Wait()
	p := w.process
	select {
	case <-p.ended:
	default:
		if !w.crashing {
			return
		}
		p.kill()
		w.note("environment", "the operator crashes")
	}
	if !w.crashing && !w.fenced && !p.lost() && w.wrong() == "" {
		w.violated("the operator has ended: %v", p.err)
		return
	}
	w.checks.stored("after the end of a process")
	w.crashing, w.fenced = false, false
	w.restart()
}

// restart starts a new process of the operator. The first process runs in a new container, and so does about one in
// four later processes.
func (w *simulation) restart() {
	w.boots++
	fresh := w.boots == 1 || w.scheduler.below(4) == 0
	w.note("environment", "the operator is started (new container: %t)", fresh)
	w.boot(fresh)
}

// crash kills the process of the operator and starts the next one.
func (w *simulation) crash() {
	w.process.kill()
	w.crashing = true
	w.note("environment", "the operator is killed")
	w.revive()
}

// stop requests a shutdown of the operator, waits until its process has ended, and starts the next one.
func (w *simulation) stop() {
	w.note("environment", "the operator is asked to stop")
	p := w.process
	w.fenced = true
	p.cancel()
	for end := time.Now().Add(10 * time.Minute); w.process == p && w.wrong() == ""; {
		if w.scheduler.next() == "" {
			if time.Now().After(end) {
				w.violated("the operator did not stop within ten minutes")
			}
			w.scheduler.idle(end)
		}
		w.revive()
	}
}

// end kills the operator and waits until its goroutines have stopped.
func (w *simulation) end() {
	w.process.kill()
	synctest.Wait()
}

// writeConfig writes the operator's ConfigMap with the current settings and enabled modules.
func (w *simulation) writeConfig() {
	data := map[string]string{}
	for _, module := range moduleNames {
		if s := w.settings[module]; s != "initial" {
			data[module] = "setting: " + s + "\n"
		}
		if !w.enabled[module] {
			data[module+"Enabled"] = "false"
		}
	}
	w.network.server.put(address{"configmaps", namespace, configName}, nil, data)
}

// existing returns the data of all ConfigMaps whose label "for" has the value module, by name. Hooks watch these
// objects.
func (w *simulation) existing(module string) map[string]string {
	out := map[string]string{}
	for at, o := range w.network.server.objects {
		if labels, _ := metadataOf(o.content)["labels"].(map[string]any); at.namespace == "apps" && labels["for"] == module {
			out[at.name] = string(marshal(o.content["data"]))
		}
	}
	return out
}

// difference describes how got differs from want. It returns "" if they are equal.
func difference(got, want map[string]string) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if have, ok := got[k]; !ok {
			lines = append(lines, fmt.Sprintf("%s is missing, want %s", k, want[k]))
		} else if have != want[k] {
			lines = append(lines, fmt.Sprintf("%s is %s, want %s", k, have, want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			lines = append(lines, fmt.Sprintf("%s exists and must not", k))
		}
	}
	return strings.Join(lines, "; ")
}

// inBubble calls fn in a bubble of package synctest, in which the time is simulated.
func inBubble(t *testing.T, fn func()) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { fn() })
}
