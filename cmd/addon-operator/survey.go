package main

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"addon-operator/internal/module"
	"addon-operator/internal/retry"
	"addon-operator/steps"
	"addon-operator/store"
	"addon-operator/triggers"
	configurations "addon-operator/triggers/addons"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

const (
	// surveyDelay is the minimum time from a change to the survey, so that one survey handles several
	// changes.
	surveyDelay = 300 * time.Millisecond
	// surveyShare is the ratio between the delay before a survey and the duration of the previous
	// survey, so that surveys use little CPU.
	surveyShare = 20
	// surveyMost is the maximum delay before a survey. Without this maximum, a survey that takes long would delay the
	// next survey by many minutes.
	surveyMost = time.Minute
	// surveyFull is the minimum delay before a survey is repeated because the disk was full.
	surveyFull = 5 * time.Second
)

// repeatedChecks are the delays between two checks while no file and no registered addon changes. One check is for
// modules that cannot be loaded. The other check is for modules made from addons: whether these modules are outdated or
// cannot be written.
var repeatedChecks = retry.Delays{First: time.Minute, Longest: 30 * time.Minute}

// A wakeup is a signal that some goroutines raise and another goroutine handles. If a wakeup is raised
// several times before it is handled, the goroutine handles it once.
type wakeup chan struct{}

func newWakeup() wakeup { return make(wakeup, 1) }

func (s wakeup) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// surveys update the stored problems of module directories, ConfigMap keys and jqFilters. The
// surveys also request a converge if changed files or registered addons need one. Each survey runs
// in a goroutine. The survey watchDirs waits for changes of files, and each other survey waits for its
// wakeups.
type surveys struct {
	log    zerolog.Logger
	db     *store.DB
	engine workflow.Raiser
	steps  *steps.Lifecycle
	kube   *triggers.Kube
	addons *configurations.Trigger // nil if addons configurations are not processed
	dirs   []string                // directories of modules and global hooks

	problems wakeup          // problems of directories and ConfigMap keys may have changed
	filters  wakeup          // failing jqFilters may have changed
	bindings <-chan struct{} // attached bindings may have changed
	files    wakeup          // the files of modules may have changed
	registry wakeup          // registered addons may have changed
}

// newSurveys returns a copy of s in which all wakeups are created. A failed write of modules made from addons raises
// the wakeup registry.
func newSurveys(s surveys) *surveys {
	s.problems, s.filters, s.files, s.registry = newWakeup(), newWakeup(), newWakeup(), newWakeup()
	s.bindings = store.Changes(s.db, store.At(store.Bindings))
	s.steps.State.Addons.Failed = s.registry.raise
	return &s
}

// run starts all surveys as goroutines of the group. The surveys end when ctx ends.
func (s *surveys) run(ctx context.Context, group *errgroup.Group) {
	for _, survey := range []func(context.Context){s.updateProblems, s.requestMended, s.requestAddons, s.watchDirs, s.updateFailingFilters} {
		group.Go(func() error { survey(ctx); return nil })
	}
}

// updateProblems updates the problems of directories and ConfigMap keys until ctx ends. While the disk is full, it
// repeats the survey.
func (s *surveys) updateProblems(ctx context.Context) {
	delay, failed := surveyDelay, "" // this delay also applies to the first survey, because the start needs the CPU
	for s.problems.raise(); ; {
		select {
		case <-ctx.Done():
			return
		case <-s.problems:
		}
		if !sleep(ctx, delay) {
			return
		}
		select {
		case <-s.problems: // the survey below also finds the changes that happened during the delay
		default:
		}
		began := time.Now()
		err := s.steps.Discovery.Survey.Run()
		delay = min(max(surveyDelay, surveyShare*time.Since(began)), surveyMost)
		if errors.Is(err, store.ErrFull) {
			delay = max(delay, surveyFull)
			s.problems.raise()
		} else if err != nil && err.Error() != failed {
			failed = err.Error()
			s.log.Error().Err(err).Msg("cannot update the problems of module directories")
		}
		if s.addons != nil {
			s.addons.ModulesChanged()
		}
	}
}

// requestMended runs until ctx ends. It requests a converge whenever a broken module can be loaded again. It checks the
// broken modules after each change of a file. As long as a module is broken, it also checks after the delays
// repeatedChecks, because the cause can be outside of the module's files, for example a full /tmp.
func (s *surveys) requestMended(ctx context.Context) {
	doOnWakeup(ctx, s.files, repeatedChecks, func() (again bool) {
		repaired, broken, err := s.steps.Discovery.Survey.Repaired(ctx)
		if err == nil && len(repaired) > 0 {
			err = s.db.Update(func(tx *store.Tx) error {
				still, err := store.AnyBroken(tx, repaired)
				if err != nil || !still { // a converge has read the corrected files in the meantime
					return err
				}
				return s.engine.Raise(tx, workflow.Event{On: lifecycle.OnModuleMended})
			})
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error().Err(err).Msg("cannot check whether broken modules are repaired; the check is repeated later")
		}
		return err != nil || broken > len(repaired)
	})
}

// doOnWakeup calls do whenever wake is raised, until ctx ends. As long as do returns true, doOnWakeup also calls it
// after each of the delays.
func doOnWakeup(ctx context.Context, wake wakeup, delays retry.Delays, do func() (again bool)) {
	var later <-chan time.Time
	calls := 0 // the number of calls since the last raise
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			calls = 0
		case <-later:
		}
		later = nil
		if calls++; do() {
			later = time.After(time.Until(delays.Next(time.Now(), calls)))
		}
	}
}

// requestAddons runs until ctx ends. It requests a converge whenever the registered addons provide other modules than
// before, and when modules that could not be written have been written. It checks the modules after each change of
// registered addons, and after a failed write. As long as modules cannot be written, or the last discovery has not
// found the modules, it repeats the check after the delays repeatedChecks.
func (s *surveys) requestAddons(ctx context.Context) {
	requested := "" // the outdated modules for which the last converge was requested
	// The first check does not wait for a change, because an earlier process may have ended before
	// it requested a converge.
	s.registry.raise()
	doOnWakeup(ctx, s.registry, repeatedChecks, func() (again bool) {
		mended, failing, err := s.steps.State.WriteAgain()
		if mended {
			requested = "" // because the converge that was requested did not find the modules
		}
		outdated := ""
		if err == nil {
			err = s.db.View(func(tx *store.Tx) (err error) {
				outdated, err = s.steps.State.Addons.Outdated(tx)
				return err
			})
		}
		if err == nil && outdated != "" && outdated != requested {
			err = s.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
				return s.engine.Raise(tx, workflow.Event{On: lifecycle.OnAddonsChanged})
			})
		}
		if err == nil {
			requested = outdated
		} else if ctx.Err() == nil {
			s.log.Error().Err(err).Msg("cannot check whether modules made from addons are outdated; the check is repeated later")
		}
		s.problems.raise()
		return err != nil || failing || outdated != ""
	})
}

// watchDirs raises the wakeups s.problems and s.files after each change in a directory of modules
// or global hooks. watchDirs logs directories that cannot be watched.
func (s *surveys) watchDirs(ctx context.Context) {
	failed := func(err error) {
		s.log.Warn().Err(err).Msg("changes of module directories are noticed at the next converge only")
	}
	changed := func() {
		s.problems.raise()
		s.files.raise()
	}
	if err := module.Watch(ctx, s.dirs, failed, changed); err != nil {
		failed(err)
	}
}
