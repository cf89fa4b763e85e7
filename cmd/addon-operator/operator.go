package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"addon-operator/internal/helm"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/steps"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

// An operator is a running operator: the parts that serve and triggers share.
type operator struct {
	settings Settings
	log      zerolog.Logger
	db       *store.DB
	runner   *hook.Runner
	client   *kube.Client
	kinds    *kube.Kinds
	helm     *helm.Client
	site     *steps.Site
	engine   *workflow.Engine

	kube      *triggers.Kube
	schedule  *triggers.Schedule
	absent    *triggers.Absent
	configMap *triggers.ConfigMap
}

// Run runs the operator until ctx is done, and then lets what runs come to its
// end for a while. It fails when the operator cannot start, or when its store
// can no longer be written.
func Run(ctx context.Context, s Settings, w io.Writer) error {
	log, err := newLog(s, w)
	if err != nil {
		return err
	}
	o := &operator{settings: s, log: log}
	if err := o.open(); err != nil {
		return err
	}
	defer o.close()
	if err := o.connect(); err != nil {
		return err
	}
	if err := o.assemble(); err != nil {
		return err
	}
	return o.run(ctx)
}

// open opens the store and ends what an earlier process has left running.
func (o *operator) open() (err error) {
	if err := os.MkdirAll(filepath.Dir(o.settings.Store), 0o700); err != nil {
		return fmt.Errorf("directory of the store: %w; make it writable, or name another with --store", err)
	}
	if o.db, err = store.Open(o.settings.Store, store.Options{Clock: time.Now}); err != nil {
		return err
	}
	killed, err := hook.KillLeftovers(o.db.ID())
	if len(killed) > 0 {
		o.log.Warn().Ints("pids", killed).Msg("killed hooks that an earlier process left running")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("hooks of an earlier process: %w", err), o.db.Close())
	}
	o.runner, err = hook.NewRunner(hook.Options{
		TempDir: o.settings.TempDir, ToolsDir: o.settings.ToolsDir, StoreID: o.db.ID(), KeepTemp: o.settings.KeepTemp,
	})
	if err != nil {
		return errors.Join(err, o.db.Close())
	}
	return nil
}

func (o *operator) close() {
	o.runner.Close()
	if err := o.db.Close(); err != nil {
		o.log.Error().Err(err).Msg("the store did not close well")
	}
}

// connect makes the clients. It sends nothing: an API server that is away is
// waited for by the steps that need it.
func (o *operator) connect() error {
	s := &o.settings
	config, namespace, err := kube.Connect(kube.Options{
		Kubeconfig: s.Kubeconfig, Context: s.KubeContext, Server: s.KubeServer, QPS: float32(s.KubeQPS), Burst: s.KubeBurst,
	})
	if err != nil {
		return err
	}
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	if s.Namespace == "" {
		return &codedError{exitUsage, errors.New("the namespace of releases is not known: set ADDON_OPERATOR_NAMESPACE or --namespace")}
	}
	if o.client, err = kube.NewClient(config); err != nil {
		return err
	}
	labels, err := s.labels()
	if err != nil {
		return err
	}
	log := o.log.With().Str("source", "helm").Logger()
	o.helm, err = helm.New(helm.Options{
		Config: config, Namespace: s.Namespace, Driver: s.HelmDriver, HistoryMax: s.HelmHistoryMax, Timeout: s.HelmTimeout,
		ExtraLabels: labels, Log: func(format string, args ...any) { log.Debug().Msgf(format, args...) },
	})
	return err
}

// assemble joins the steps with the engine and the triggers with both.
func (o *operator) assemble() (err error) {
	s := o.settings
	observer := o.kubeObserver()
	o.kinds = kube.NewKinds(o.client, observer)
	o.site = &steps.Site{
		DB: o.db, Log: o.log, Hooks: o.runner, Helm: o.helm, Kube: o.client,
		Config:      o.client.ConfigMap(s.Namespace, s.ConfigMap),
		ModulesDirs: strings.Split(s.ModulesDirs, ":"), GlobalHooksDir: s.GlobalHooksDir,
		UnnumberedOrder: s.UnnumberedOrder, Namespace: s.Namespace, IgnoreRelease: s.HelmIgnoreRelease, AllowPurge: s.AllowPurge,
	}
	if o.engine, err = workflow.New(o.db, o.observer(), o.site.Lifecycle()); err != nil {
		return err
	}
	o.kube = triggers.NewKube(o.db, o.engine.Raise, o.client, o.kinds, observer, o.log)
	o.schedule = triggers.NewSchedule(o.db, o.engine.Raise, triggers.Missed(s.ScheduleMissed), o.log)
	o.absent = triggers.NewAbsent(o.db, o.engine.Raise, o.kinds, selector(o.helm.Labels()), observer)
	o.configMap = &triggers.ConfigMap{DB: o.db, Raise: o.engine.Raise, Source: o.site.Config}
	o.site.Sights = o.kube
	o.site.Attached = func() { o.kube.Changed(); o.schedule.Changed() }
	o.site.Installed = o.absent.Changed
	return nil
}

func selector(labels map[string]string) string {
	var terms []string
	for key, value := range labels {
		terms = append(terms, key+"="+value)
	}
	return strings.Join(terms, ",")
}

// run starts the engine and the triggers and waits for their end.
func (o *operator) run(ctx context.Context) error {
	set, err := o.site.Scan()
	if err != nil {
		return err
	}
	digest, err := o.digest(set)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, watching := errgroup.WithContext(watching)
	serving, err := o.serve(watching, group)
	if err != nil {
		return err
	}
	if err := o.engine.Start(func(tx *store.Tx) ([]workflow.Event, error) {
		return triggers.Begin(tx, triggers.Startup(o.settings.Startup), digest)
	}); err != nil {
		serving()
		return err
	}
	o.log.Info().Str("version", version).Str("store", o.settings.Store).Uint64("life", o.db.Epoch()).Msg("operator started")
	group.Go(func() error { o.kinds.Run(watching); return nil })
	group.Go(func() error { return o.kube.Run(watching) })
	group.Go(func() error { return o.schedule.Run(watching) })
	group.Go(func() error { return o.absent.Run(watching) })
	group.Go(func() error { return o.configMap.Run(watching, o.kubeObserver()) })
	select {
	case <-ctx.Done():
		o.log.Info().Msg("operator stops: nothing new is begun, what runs may end")
	case <-watching.Done():
	case <-o.db.Done():
	}
	o.engine.Stop()
	stop()
	serving()
	return errors.Join(group.Wait(), o.db.Err())
}

// digest returns one checksum over all code that the lifecycle runs.
func (o *operator) digest(set module.Set) (string, error) {
	var digests module.Digests
	sum := sha256.New()
	global, err := digests.GlobalHooks(o.settings.GlobalHooksDir)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(sum, version, o.settings.ModulesDirs, o.settings.Namespace, o.settings.ConfigMap, global)
	for _, m := range set.Modules {
		own := "broken"
		if m.Broken == nil {
			if own, err = digests.Module(m); err != nil {
				return "", err
			}
		}
		fmt.Fprintln(sum, m.Order, m.Name, own)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// observer logs what the engine does.
func (o *operator) observer() workflow.Observer {
	return workflow.Observer{
		Recorded: func(r store.Record) { logRecord(o.log, r) },
		Looped: func(t store.Task) {
			o.log.Warn().Str("node", t.Node).Str("module", t.Subject.Module).Int("times", t.Loop.N).
				Msg("values change at each run; the next one is delayed")
		},
		Broken: func(queue string, err error) { o.log.Error().Err(err).Str("queue", queue).Msg("queue stands still") },
	}
}

// kubeObserver logs what goes wrong with the API server.
func (o *operator) kubeObserver() kube.Observer {
	return kube.Observer{
		SourceFailed: func(s kube.Source, err error) {
			o.log.Warn().Err(err).Str("source", s.String()).Msg("watch failed and is tried again")
		},
		VersionRefused: func(s kube.Source, v string, err error) {
			o.log.Info().Err(err).Str("source", s.String()).Str("version", v).Msg("watch begins anew and is compared with what was told")
		},
		FilterFailed: func(v kube.View, object *kube.Object, err error) {
			o.log.Debug().Err(err).Str("view", v.String()).Str("object", object.Namespace+"/"+object.Name).Msg("jqFilter failed; the object stays as it was")
		},
		ReceiverFailed: func(s kube.Source, err error) {
			o.log.Error().Err(err).Str("source", s.String()).Msg("changes could not be put into the store and are tried again")
		},
		KindFailed: func(apiVersion, kind string, err error) {
			o.log.Warn().Err(err).Str("apiVersion", apiVersion).Str("kind", kind).Msg("kind could not be looked up and is tried again")
		},
	}
}
