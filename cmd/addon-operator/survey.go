package main

import (
	"context"
	"strings"
	"time"

	"addon-operator/internal/module"
	"addon-operator/steps"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

const (
	// surveyDelay is the time in which several causes of a survey lead to one.
	surveyDelay = 300 * time.Millisecond
	// surveyShare is the part of the time, as 1/n, that surveys take at most.
	surveyShare = 20
)

// A wakeup is raised by one goroutine and handled by another. Raised again before it is handled, it is
// handled once.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (s wakeup) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// survey keeps the problems of directories and ConfigMap keys up to date until ctx ends.
func (o *operator) survey(ctx context.Context) {
	delay, failed := surveyDelay, "" // the start itself needs the CPU first
	for o.recheck.raise(); ; {
		select {
		case <-ctx.Done():
			return
		case <-o.recheck:
		}
		if !sleep(ctx, delay) {
			return
		}
		select {
		case <-o.recheck: // it is handled by this survey
		default:
		}
		began := time.Now()
		changed, err := o.steps.Survey.Run()
		delay = max(surveyDelay, surveyShare*time.Since(began))
		if err != nil && err.Error() != failed {
			failed = err.Error()
			o.log.Error().Err(err).Msg("problems of module directories are not up to date")
		}
		if o.addons != nil {
			o.addons.ModulesChanged()
		}
		if changed {
			o.changes.Notify(0)
		}
	}
}

// runMended requests a converge when the files of a module that could not be loaded have been
// corrected, until ctx ends.
func (o *operator) runMended(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.mended:
		}
		mended, err := o.steps.Survey.Mended(ctx)
		if err == nil && len(mended) > 0 {
			err = o.db.Update(func(tx *store.Tx) error {
				broken, err := steps.AnyBroken(tx, mended)
				if err != nil || !broken { // a converge has read the files meanwhile
					return err
				}
				return o.engine.Raise(tx, workflow.Event{On: lifecycle.OnModuleMended})
			})
		}
		if err != nil && ctx.Err() == nil {
			o.log.Error().Err(err).Msg("cannot check whether broken modules are mended: after the next change of a file it is tried again")
		}
	}
}

// runAddonsChanged requests a converge when the registered addons provide other modules than before,
// until ctx ends.
func (o *operator) runAddonsChanged(ctx context.Context) {
	requested := "" // the modules that the last converge was requested for
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.addonsChanged:
		}
		outdated := ""
		err := o.db.View(func(tx *store.Tx) (err error) {
			outdated, err = o.steps.Addons.Outdated(tx)
			return err
		})
		if err == nil && outdated != "" && outdated != requested {
			err = o.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
				return o.engine.Raise(tx, workflow.Event{On: lifecycle.OnAddonsChanged})
			})
		}
		if err == nil {
			requested = outdated
		} else if ctx.Err() == nil {
			o.log.Error().Err(err).Msg("modules made from addons not compared with the registered addons; retrying after the next change of an addon")
		}
		o.recheck.raise()
	}
}

// watchDirectories requests a survey and a check of broken modules after each change in a directory of
// modules or hooks. A directory that cannot be watched is reported in the log.
func (o *operator) watchDirectories(ctx context.Context) error {
	roots := append(strings.Split(o.settings.ModulesDirs, ":"), o.settings.GlobalHooksDir)
	failed := func(err error) {
		o.log.Warn().Err(err).Msg("changes of module directories are noticed at the next converge only")
	}
	changed := func() {
		o.recheck.raise()
		o.mended.raise()
	}
	if err := module.Watch(ctx, roots, failed, changed); err != nil {
		failed(err)
	}
	return nil
}
