package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/triggers"
)

// An action is something that happens to the operator or its cluster. Its kind is in the field what. The fields named n
// and more are numbers, whose meaning depends on the kind.
type action struct {
	number int
	at     time.Duration // time since the previous action of the round, or since the beginning of the round
	what   string
	n      int
	more   int
}

// A plan has the settings of a simulation and its actions. After the actions of each round there is a calm, a time in
// which nothing fails.
type plan struct {
	seed      uint64
	parallel  int
	continues bool
	startup   triggers.StartMode
	rounds    []round
}

type round struct {
	actions []action
	quiet   int // number of days after the calm; in these days, only schedule ticks happen
}

// whatHappens has the kinds of actions from which newPlan chooses. A kind that is listed several times is chosen more
// often.
var whatHappens = []string{
	"objects", "objects", "objects", "flood", "setting", "setting", "toggle", "invalid",
	"failing hook", "failing hook", "slow hook", "fault", "fault", "fault", "silence", "down", "broken watches", "compaction", "compaction",
	"full disk", "kill", "crash", "crash", "crash", "crash after an effect", "stop", "expired lease", "stolen lease", "paused operator", "vanished object", "wait", "wait",
	"snapshot", "snapshot", "snapshot", "restored snapshot", "restored snapshot", "restored disk", "lost store",
}

// newPlan returns a random plan that depends only on its arguments. actions is the maximum number of actions in a
// round, and quiet is the maximum number of quiet days after a round.
func newPlan(seed uint64, rounds, actions, quiet int) plan {
	chance := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // the plan of a seed must be reproducible
	p := plan{seed: seed, parallel: 1 + chance.IntN(2), continues: chance.IntN(2) == 0}
	if p.startup = triggers.Always; chance.IntN(2) == 0 {
		p.startup = triggers.IfChanged // in this mode fewer starts converge, and a converge can hide an error
	}
	number := 0
	for range rounds {
		r := round{quiet: chance.IntN(quiet + 1)}
		for range 1 + chance.IntN(actions) {
			a := action{number: number, what: whatHappens[chance.IntN(len(whatHappens))], n: chance.IntN(1000), more: chance.IntN(1000)}
			a.at = time.Duration(chance.IntN(20)) * time.Duration(chance.IntN(1000)) * time.Millisecond
			number++
			r.actions = append(r.actions, a)
		}
		p.rounds = append(p.rounds, r)
	}
	return p
}

// happen carries out the action a in the simulation.
func (w *simulation) happen(a action) {
	server, module := w.network.server, moduleNames[a.n%len(moduleNames)]
	switch a.what {
	case "objects":
		w.changeObjects(1+a.more%4, a.n)
	case "flood":
		w.changeObjects(30+a.more%70, a.n)
	case "setting":
		w.changeSetting(module, a.more)
	case "toggle":
		w.enabled[module] = !w.enabled[module]
		w.note("user", "sets %sEnabled to %t", module, w.enabled[module])
		w.writeConfig()
	case "invalid":
		w.note("user", "writes an invalid section %s", module)
		server.put(address{"configmaps", namespace, configName}, nil, map[string]string{module: "{not valid"})
	case "vanished object":
		if at := (address{"configmaps", namespace, module + "-state"}); server.objects[at] != nil {
			w.note("user", "deletes %s", at)
			server.commit(at, nil)
		}
	case "failing hook", "slow hook":
		w.disturbHook(a)
	case "full disk":
		w.full = true
		w.note("disk", "is full")
		w.live(time.Duration(a.n) * 100 * time.Millisecond)
		w.full = false
		w.note("disk", "has room")
	case "wait":
		w.live(time.Duration(a.n) * time.Second)
	case "kill":
		w.crash()
	case "crash":
		w.crashIn, w.crashAfter = 1+a.n%40, a.more%2 == 0
		w.note("environment", "plans a crash at commit %d from now (after it: %t)", w.crashIn, w.crashAfter)
	case "crash after an effect":
		w.crashAtEffect = true
		w.changeSetting(reporter.module, a.more)
	case "stop":
		w.stop()
	case "expired lease", "stolen lease", "paused operator":
		w.loseLease(a.what, time.Duration(a.n)*time.Second)
	case "snapshot":
		w.makeSnapshot()
	case "restored snapshot", "restored disk":
		w.restoreSnapshot(a.n, a.what == "restored disk")
	case "lost store":
		w.loseStore()
	default:
		w.disturbNetwork(a)
	}
}

// changeSetting changes the value "setting" of module in the operator's ConfigMap.
func (w *simulation) changeSetting(module string, n int) {
	w.settings[module] = fmt.Sprintf("s%d", n)
	w.note("user", "sets %s.setting to %s", module, w.settings[module])
	w.writeConfig()
}

// changeObjects makes n changes to objects that hooks watch: each creates, changes or deletes an object. The second
// parameter is a number that selects the objects.
func (w *simulation) changeObjects(n, which int) {
	server := w.network.server
	for i := range n {
		of := append(slices.Clone(moduleNames), "fleet")[(which+i)%4]
		at := address{"configmaps", "apps", fmt.Sprintf("%s-%d", of, (which/4+i/4)%7)}
		if server.objects[at] != nil && w.scheduler.below(3) == 0 {
			server.commit(at, nil)
			w.note("user", "deletes %s: version %d", at, server.version)
			continue
		}
		server.put(at, map[string]string{"for": of}, map[string]string{"v": fmt.Sprint(server.version)})
		w.note("user", "writes %s: version %d", at, server.version)
	}
}

func (w *simulation) disturbHook(a action) {
	all := []hookName{{"alpha", "hooks/watch"}, {"beta", "hooks/watch"}, {"beta", "hooks/turn"}, {"gamma", "hooks/watch"}, {"", "fleet"}}
	h := all[a.n%len(all)]
	w.hooks.mu.Lock()
	if a.what == "slow hook" {
		w.hooks.slow[h] = time.Duration(1+a.more) * time.Second
	} else {
		w.hooks.failing[h] += 1 + a.more%3
	}
	w.hooks.mu.Unlock()
	w.note("environment", "%s: %s", a.what, h)
}

func (w *simulation) disturbNetwork(a action) {
	n := w.network
	switch a.what {
	case "fault":
		codes := []int{0, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
		f := &fault{code: codes[a.n%len(codes)], after: a.more%2 == 0, writes: a.more%3 > 0, left: 1 + a.more%5}
		if f.code == http.StatusConflict || f.code == http.StatusTooManyRequests {
			f.after = false // an API server that sends one of these two responses has not executed the request
		}
		if f.code == http.StatusConflict {
			f.writes = true
		}
		n.mu.Lock()
		n.faults = append(n.faults, f)
		n.mu.Unlock()
		w.note("API server", "%s", f)
	case "silence":
		w.note("API server", "falls silent")
		n.setSilent(true)
		w.changeWithin(a, time.Duration(a.n)*100*time.Millisecond)
		n.setSilent(false)
		w.note("API server", "answers again")
	case "down":
		w.note("API server", "goes down")
		n.setDown(true)
		w.changeWithin(a, time.Duration(a.n)*50*time.Millisecond)
		if a.more%2 == 0 {
			n.server.compact()
		}
		n.setDown(false)
		w.note("API server", "is up again (compacted: %t)", a.more%2 == 0)
	case "broken watches":
		w.note("API server", "breaks all watches")
		n.breakWatches()
	case "compaction":
		n.server.compact()
		n.breakWatches()
		w.note("API server", "breaks all watches and forgets all versions before %d", n.server.version)
	}
}

// changeWithin continues the simulation for d, and changes objects in the middle of this time. The caller must have
// ensured that no watch delivers these changes before changeWithin returns.
func (w *simulation) changeWithin(a action, d time.Duration) {
	w.live(d / 2)
	w.changeObjects(a.more%20, a.n)
	w.live(d / 2)
}

// calmDown ends all disturbances, and continues the simulation for so long that all work can be done. calmDown reports
// a violation if a task that could start does not start.
func (w *simulation) calmDown() {
	w.note("environment", "calm: nothing fails any more")
	w.network.heal()
	w.hooks.heal()
	w.full, w.crashIn, w.crashAtEffect = false, 0, false
	w.writeConfig()
	waited := map[string]store.ID{}
	for range 8 {
		w.live(20 * time.Minute)
		if w.wrong() != "" {
			return
		}
		w.releaseQuarantined()
		waited = w.checks.stalled(waited)
	}
}
