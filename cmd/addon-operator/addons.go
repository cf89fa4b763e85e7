package main

import (
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/api"
	repository "addon-operator/internal/catalog/source"
	"addon-operator/internal/kube"
	"addon-operator/steps/addons"
	configurations "addon-operator/triggers/addons"
	"addon-operator/workflow"
)

// addonsGraph returns the implementation of the addons graph. With --addons=off, no trigger begins a run of this graph,
// so its steps only finish pending tasks.
func (o *operator) addonsGraph() (implementation workflow.Implementation, err error) {
	s := o.settings.Addons
	delays, err := s.Delays()
	if err != nil {
		return implementation, err
	}
	fetcher, err := repository.New(repository.Options{Develop: s.Develop, TempDir: o.settings.TempDir, KnownHosts: s.KnownHosts})
	if err != nil {
		return implementation, err
	}
	o.addonsRuntime = &addons.Runtime{
		DB: o.db, Configurations: addons.NewConfigurations(o.client.Dynamic()), Fetcher: fetcher, Retry: delays,
		AllAsModules: o.settings.AddonsModules, ImageModules: o.steps.State.Addons.ImageModules, Fetches: o.lifecycleObserver.addonsFetches,
		Failed: func(id api.Identity, summary string, problems []string) {
			o.log.Warn().Str("kind", id.Kind()).Stringer("configuration", id).Strs("problems", problems).
				Msg("addons configuration failed: " + summary)
		},
		Damaged: o.lifecycleObserver.recordDamaged,
	}
	return o.addonsRuntime.Implementation(), nil
}

// watchAddons returns the trigger for addons configurations, or nil with --addons=off.
func (o *operator) watchAddons() *configurations.Trigger {
	if o.settings.Addons.Mode == settings.AddonsOff {
		return nil
	}
	a := configurations.New(o.db, o.engine, o.client, o.kinds, o.addonsRuntime.Retry, o.addonsObserver())
	a.Image = o.addonsRuntime.Image
	o.addonsRuntime.Settled, a.Interrupt = a.Settled, o.addonsRuntime.Interrupt
	return a
}

// addonsObserver returns the observer of the watches of addons configurations. The observer reports
// missing CRDs only with --addons=on.
func (o *operator) addonsObserver() kube.Observer {
	observer := o.clusterObserver.own()
	observer.KindAwaited = nil
	if o.settings.Addons.Mode == settings.AddonsOn {
		observer.KindAwaited = func(_ string, missing *kube.NotServedError) {
			o.log.Warn().Err(missing).Msg("the CRDs of addons configurations are not installed; apply deploy/crds.yaml, or set --addons=off")
		}
	}
	return observer
}
