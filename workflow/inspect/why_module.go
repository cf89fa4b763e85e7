package inspect

import (
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// module explains the module with the given name: its state, why it is enabled or disabled, its last run, its last
// upgrade, and its other problems.
func (e *explainer) module(name string) error {
	for _, explain := range []func(string) error{e.state, e.enabled, e.ran, e.upgraded, e.others} {
		if err := explain(name); err != nil {
			return err
		}
	}
	return nil
}

// unrecorded explains a module that has no record in the store, such as the module of a release that the operator
// purges. It explains the pending step of the module, or its pauses and its items in quarantine.
func (e *explainer) unrecorded() error {
	w, step, err := e.pending(e.name, func(s graph.Subject) bool { return s.Module == e.name })
	if err != nil {
		return err
	}
	if step == nil {
		return e.items("module "+e.name, func(p *Problem) bool { return p.Subject.Module == e.name })
	}
	causes, err := e.rooted(w, step)
	e.answer("Why "+step.verb("a task of module "+e.name)+"?", causes)
	return err
}

// state explains the state of a module.
func (e *explainer) state(name string) error {
	is := e.states[name]
	question := "Why is module " + name + " " + string(is.State) + "?"
	if is.State == ModuleOff {
		return nil // e.enabled explains a module that is off
	}
	if slices.Contains([]ModuleState{ModuleBroken, ModuleBlocked, ModulePaused, ModuleQuarantined}, is.State) {
		e.answer(question, []CauseStep{{At: is.Since, Text: is.Reason}})
		if p := e.problem(func(p *Problem) bool {
			return p.Subject.Module == name && (p.Kind == KindBroken || p.Kind == KindNoCRDs)
		}); p != nil {
			e.meanwhile(p)
			e.out.Fix = p.fix()
			return e.changedBeforeBroken(name, p.At)
		}
		return nil
	}
	w, step, err := e.pending(name, func(s graph.Subject) bool { return s.Module == name })
	if err != nil {
		return err
	}
	if step == nil {
		m, _, err := load[store.Module](e.scan.unreadable, store.ModuleKey(name))
		if err != nil || is.State != ModuleOn {
			e.answer(question, []CauseStep{{At: is.Since, Text: is.Reason}})
			return err
		}
		question = "Why does nothing run for module " + name + "?"
		if e.discovery(question) {
			return nil
		}
		e.answer(question, []CauseStep{{
			At: m.RanAt, Run: m.RanIn, Text: "its last run succeeded, and nothing of it is pending; it runs again when its values or files change, or one of its objects is missing",
		}})
		return nil
	}
	causes, err := e.rooted(w, step)
	if is.State == ModuleOn {
		question = "Why " + step.verb("a task of module "+name) + "?"
	}
	e.answer(question, causes)
	return err
}

// discovery answers question if the discovery of modules does not end: its step fails, or an enabled script takes long.
// Until the discovery ends, no module runs. The result is false if there is no such problem.
func (e *explainer) discovery(question string) (answered bool) {
	p := e.problem(func(p *Problem) bool {
		return p.Node == discoverModules && (p.Kind == KindFailing || p.Kind == KindSlow)
	})
	if p == nil {
		return false
	}
	cause := CauseStep{At: p.Since, Run: p.Run, Text: p.Node + " fails: " + p.Error}
	if p.Kind == KindSlow {
		cause.At, cause.Text = p.At, "the enabled script of module "+p.Subject.Module+" runs unusually long: "+p.Error
	}
	e.answer(question, []CauseStep{cause})
	e.meanwhile(p)
	return true
}

// changedBeforeBroken adds the changes between the last run of a module and the time at which the module could no
// longer be loaded.
func (e *explainer) changedBeforeBroken(name string, since time.Time) error {
	m, _, err := load[store.Module](e.scan.unreadable, store.ModuleKey(name))
	if err != nil || since.IsZero() {
		return err
	}
	changes, err := e.changesBetween(m.RanAt, since)
	e.answer(changedQuestion, changes)
	return err
}

// enabled explains why a module is enabled or disabled.
func (e *explainer) enabled(name string) error {
	m, ok, err := load[store.Module](e.scan.unreadable, store.ModuleKey(name))
	if err != nil || !ok {
		return err
	}
	word := "disabled"
	if m.Enabled {
		word = "enabled"
	}
	causes := []CauseStep{{At: m.DecidedAt, Run: m.DecidedIn, Text: m.Why}}
	if m.Why == "" {
		causes[0].Text = word
	}
	began, err := e.runCauses(m.DecidedIn)
	e.answer("Why is module "+name+" "+word+"?", append(causes, began...))
	return err
}

// ran explains the last ended run of a module.
func (e *explainer) ran(name string) error {
	m, ok, err := load[store.Module](e.scan.unreadable, store.ModuleKey(name))
	if err != nil || !ok || m.RanIn == 0 {
		return err
	}
	began, err := e.runCauses(m.RanIn)
	e.answer("Why did module "+name+" run last?", append([]CauseStep{{At: m.RanAt, Run: m.RanIn, Text: "its run ended"}}, began...))
	return err
}

// upgraded explains the last successful upgrade of a module's release, with the check before the upgrade
// and the hooks that changed values earlier in the same run.
func (e *explainer) upgraded(name string) error {
	of := func(a *store.Record, node string) bool { return a.Node == node && a.Subject.Module == name }
	upgrade, err := e.newest(func(s graph.Subject) bool { return s == graph.Subject{Module: name} },
		func(a *store.Record) bool { return a.Node == releaseUpgrade && a.State == store.Done })
	if err != nil || upgrade == nil {
		return err
	}
	var check *store.Record
	var changed []CauseStep
	for a, err := range readable(e.scan.unreadable, store.RecordsOf(e.scan.tx, upgrade.Run)) {
		switch {
		case err != nil:
			return err
		case a.Ended.After(upgrade.Ended):
		case of(&a, releaseCheck):
			check = &a
		case changesValues(&a) && (a.Subject.Module == name || a.Subject.Module == ""):
			changed = append(changed, attemptCause(&a))
		}
	}
	causes := []CauseStep{attemptCause(upgrade)}
	if check != nil {
		causes = append(causes, attemptCause(check))
	}
	const most = 3
	causes = append(causes, changed[max(len(changed)-most, 0):]...)
	began, err := e.runCauses(upgrade.Run)
	e.answer("Why was the release of module "+name+" installed or upgraded last?", append(causes, began...))
	return err
}

// meanwhile adds an answer about the state of the cluster until p is solved.
func (e *explainer) meanwhile(p *Problem) {
	if p.Leaves != "" {
		e.answer(stateQuestion, []CauseStep{{Text: p.Leaves}})
	}
}

// others adds an answer about the other problems of a module, for example missed ticks.
func (e *explainer) others(name string) error {
	e.standing("What else is wrong with module "+name+"?", func(p *Problem) bool { return p.Subject.Module == name })
	return nil
}

// standing adds an answer with the problems for which [Problem.stored] and the function wanted return true, except
// pauses.
func (e *explainer) standing(question string, wanted func(*Problem) bool) {
	var causes []CauseStep
	for i := range e.problems {
		p := &e.problems[i]
		if !wanted(p) || !p.stored() || p.Kind == KindPaused {
			continue
		}
		causes = append(causes, CauseStep{At: p.At, Text: p.Error, Fix: p.Fix, Advice: p.command()})
	}
	e.answer(question, causes)
}
