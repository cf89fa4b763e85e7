package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/api"
	repository "addon-operator/internal/catalog/source"
	"addon-operator/internal/kube"
	"addon-operator/internal/retry"
	"addon-operator/steps/addons"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

// The values of --addons.
const (
	addonsAuto = "auto"
	addonsOn   = "on"
	addonsOff  = "off"
)

var addonsModes = []string{addonsAuto, addonsOn, addonsOff}

// addonsSettings are the settings for addons configurations.
type addonsSettings struct {
	// Mode is auto, on or off.
	Mode    string
	Develop bool
	Resync  time.Duration
	// Retry is one delay or the first and the longest, as FIRST..LONGEST.
	Retry string
	// KnownHosts is a file of ssh host keys; "" is none.
	KnownHosts string
}

// declare declares the flags of s.
func (s *addonsSettings) declare(
	str func(p *string, flag, value, usage string, env ...string), dur func(p *time.Duration, flag string, value time.Duration, usage string, env ...string),
	flag func(p *bool, name string, usage string, env ...string),
) {
	str(&s.Mode, "addons", addonsAuto, "whether to process addons configurations: auto as soon as their CRDs are installed, on with a warning if they are not, or off", "ADDON_OPERATOR_ADDONS")
	flag(&s.Develop, "addons-develop-mode", "allow addon repositories over http and in local files", "ADDON_OPERATOR_ADDONS_DEVELOP_MODE", "APP_DEVELOP_MODE")
	dur(&s.Resync, "addons-resync", 10*time.Minute, "time after which a failed addons configuration is processed again; 0 is never", "ADDON_OPERATOR_ADDONS_RESYNC")
	str(&s.Retry, "addons-retry", "5s..5m", "delays after which a repository or an addon that could not be fetched is tried again, the first and the longest; 0 is never", "ADDON_OPERATOR_ADDONS_RETRY")
	str(&s.KnownHosts, "addons-known-hosts", "", "file of ssh host keys, as ssh-keyscan prints them, of the git servers of addon repositories; those of github.com, gitlab.com and bitbucket.org are built in", "ADDON_OPERATOR_ADDONS_KNOWN_HOSTS")
}

// check returns an error for the first invalid setting.
func (s *addonsSettings) check() error {
	if !slices.Contains(addonsModes, s.Mode) {
		return &codedError{exitUsage, fmt.Errorf("--addons must be one of %s (got %q)", strings.Join(addonsModes, ", "), s.Mode)}
	}
	if s.Resync < 0 {
		return &codedError{exitUsage, fmt.Errorf("--addons-resync must not be negative (got %s)", s.Resync)}
	}
	if _, err := s.retry(); err != nil {
		return &codedError{exitUsage, fmt.Errorf("--addons-retry: %w", err)}
	}
	if err := repository.CheckKnownHosts(s.KnownHosts); err != nil {
		return &codedError{exitUsage, fmt.Errorf("--addons-known-hosts: %w", err)}
	}
	return nil
}

func (s *addonsSettings) retry() (retry.Delays, error) {
	first, longest, err := retry.Parse(s.Retry)
	return retry.Delays{Resync: s.Resync, First: first, Longest: longest}, err
}

// addonsGraph returns the steps of addons configurations. With --addons=off, they finish pending tasks.
func (o *operator) addonsGraph() (binding workflow.Binding, err error) {
	s := o.settings.Addons
	delays, err := s.retry()
	if err != nil {
		return binding, err
	}
	fetcher, err := repository.New(repository.Options{Develop: s.Develop, TempDir: o.settings.TempDir, KnownHosts: s.KnownHosts})
	if err != nil {
		return binding, err
	}
	o.addonsRuntime = &addons.Runtime{
		DB: o.db, Configurations: addons.NewConfigurations(o.client.Dynamic()), Fetcher: fetcher, Retry: delays,
		AllAsModules: o.settings.AddonsModules, ImageModules: o.steps.Addons.ImageModules, Fetches: o.addonsFetches,
		Failed: o.configurationFailed,
	}
	return o.addonsRuntime.Graph(), nil
}

// watchAddons returns what raises events for addons configurations, nil if they are not processed.
func (o *operator) watchAddons() *triggers.Addons {
	if o.settings.Addons.Mode == addonsOff {
		return nil
	}
	a := triggers.NewAddons(o.db, o.engine.Raise, o.client, o.kinds, o.addonsRuntime.Retry, o.addonsObserver())
	a.Image = o.addonsRuntime.Image
	o.addonsRuntime.Settled, a.Interrupt = a.Settled, o.addonsRuntime.Interrupt
	return a
}

// configurationFailed logs why a configuration is Failed.
func (o *operator) configurationFailed(id api.Identity, summary string, problems []string) {
	o.log.Warn().Str("kind", id.Kind()).Stringer("configuration", id).Strs("problems", problems).
		Msg("addons configuration failed: " + summary)
}

// addonsObserver is ownObserver for the watches of addons configurations. That their kinds are not
// served is reported only if they must be.
func (o *operator) addonsObserver() kube.Observer {
	observer := o.ownObserver()
	observer.KindAwaited = nil
	if o.settings.Addons.Mode == addonsOn {
		observer.KindAwaited = func(_ string, missing *kube.NotServedError) {
			o.log.Warn().Err(missing).Msg("the CRDs of addons configurations are not installed; apply deploy/crds.yaml, or set --addons=off")
		}
	}
	return observer
}
