package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

const helmError = `helm upgrade of release ingress-nginx: timed out waiting for the condition
Deployment addons/controller: 0 of 2 replicas are ready
Pod controller-7d9c: ImagePullBackOff: registry.example.com/ingress/controller:1.14.2: not found`

// scenes returns functions by name. Each of these functions sets up a state of the store, and returns the number of the
// run that is shown; 0 means the default run.
func scenes() map[string]func(*fixture) (run uint64) {
	return map[string]func(*fixture) (run uint64){
		"nothing-pending": func(w *fixture) uint64 {
			w.items[lifecycle.GlobalOnStartup] = hooks("", "10-labels.sh", "20-secrets.sh")
			w.items[lifecycle.ModuleBeforeHelm] = hooks("cert-manager", "10-issuer.sh")
			w.discovers("cert-manager", "ingress-nginx")
			w.takes("release-upgrade", 1500*time.Millisecond)
			w.start(onStart, onConfigMap("4711"))
			sleep(time.Minute)
			w.raise(on(lifecycle.OnGlobalSchedule, "", "50-cleanup.sh", "nightly"))
			sleep(time.Minute)
			return 0
		},
		"running": func(w *fixture) uint64 {
			w.items[lifecycle.GlobalOnStartup] = hooks("", "10-labels.sh", "20-secrets.sh", "30-certs.sh", "40-rbac.sh")
			w.discovers("cert-manager", "ingress-nginx", "prometheus", "loki", "grafana", "velero")
			w.takes("release-upgrade", 40*time.Second)
			w.start(onStart, onConfigMap("4711"))
			sleep(61 * time.Second)
			w.raise(on(lifecycle.OnModuleKubeEvent, "cert-manager", "20-secrets.sh", "secrets"))
			return 0
		},
		"discovering": func(w *fixture) uint64 {
			w.takes("discover-modules", time.Hour)
			w.start(onStart)
			sleep(3 * time.Second)
			return 0
		},
		"failing-head": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx", "prometheus", "loki", "grafana", "velero")
			w.items[lifecycle.ModuleBeforeHelm] = nil
			w.fails("release-upgrade ingress-nginx", helmError)
			w.start(onStart, onConfigMap("4711"))
			for _, module := range names("module", 12) {
				w.raise(on(lifecycle.OnResourcesAbsent, module))
			}
			sleep(3*time.Minute + 2*time.Second)
			return 0
		},
		"failing-hook-first-time": func(w *fixture) uint64 {
			w.discovers("cert-manager")
			w.says(string(lifecycle.ModuleRun), lifecycle.JustEnabled)
			w.items[lifecycle.ModuleOnStartup] = hooks("cert-manager", "10-issuer.sh", "20-webhook.sh", "30-crds.sh")
			w.fails("module-onstartup cert-manager/20-webhook.sh", "hook 20-webhook.sh exited with 1: \x1b[31mcurl: (7) Failed to connect\x1b[0m\tto 10.0.0.1 port 443")
			w.start(onStart)
			sleep(2 * time.Second)
			return 0
		},
		"retry-under-way": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx")
			tries := 0
			w.set("module-beforehelm ingress-nginx/10-class.sh", func(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
				if tries++; tries > 1 {
					<-ctx.Done()
				}
				return workflow.Outcome{}, ctx.Err()
			})
			w.items[lifecycle.ModuleBeforeHelm] = hooks("ingress-nginx", "10-class.sh")
			w.fails("release-upgrade ingress-nginx", helmError)
			w.fails("release-upgrade cert-manager", "no")
			w.says("release-upgrade cert-manager")
			w.start(onStart)
			sleep(8 * time.Second)
			return 0
		},
		"awaiting-synchronization": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx")
			w.says(string(lifecycle.ModuleRun), lifecycle.JustEnabled)
			w.items[lifecycle.ModuleSynchronization] = []graph.Item{
				{Subject: graph.Subject{Module: "cert-manager", Hook: "20-secrets.sh", Binding: "secrets"}, Queue: "secrets", Wait: true},
				{Subject: graph.Subject{Module: "cert-manager", Hook: "30-pods.sh", Binding: "pods"}},
			}
			w.takes("module-kubernetes-synchronization cert-manager/20-secrets.sh secrets", time.Hour)
			w.start(onStart)
			sleep(15 * time.Second)
			return 0
		},
		"interrupted": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx")
			w.takes("release-upgrade ingress-nginx", time.Hour)
			w.start(onStart, onConfigMap("4711"))
			sleep(time.Minute)
			w.close()
			sleep(time.Minute)
			w.open()
			return 0
		},
		"resumed": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx", "prometheus")
			w.takes("release-upgrade ingress-nginx", 10*time.Second)
			w.takes("release-upgrade prometheus", time.Hour)
			w.start(onStart, onConfigMap("4711"))
			sleep(5 * time.Second)
			w.close()
			sleep(time.Minute)
			w.open()
			w.start()
			sleep(15 * time.Second)
			return 0
		},
		"cut": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx", "prometheus")
			w.says(string(lifecycle.ConfigMapChanged), lifecycle.GlobalChanged)
			w.fails("release-upgrade ingress-nginx", helmError)
			w.start(onStart)
			sleep(7 * time.Second)
			w.items[lifecycle.GlobalBeforeAll] = hooks("", "10-check.sh")
			w.takes("global-beforeall", time.Minute)
			w.raise(onConfigMap("4712"))
			sleep(time.Second)
			return 1
		},
		"cut-by": func(w *fixture) uint64 {
			scenes()["cut"](w)
			return 2
		},
		"superseded": func(w *fixture) uint64 {
			w.discovers("cert-manager", "ingress-nginx")
			w.fails("release-upgrade ingress-nginx", helmError)
			w.start(onStart)
			sleep(time.Second)
			w.says("release-upgrade ingress-nginx")
			again := onStart
			again.Supersedes = lifecycle.GlobalBeforeAll
			w.raise(again)
			return 1
		},
		"refused": func(w *fixture) uint64 {
			w.discovers("cert-manager")
			w.start(onStart)
			w.apply[lifecycle.ConfigMapChanged] = func(tx *store.Tx, t workflow.Task) error {
				return store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{
					ResourceVersion: "4713", Run: t.Run, At: tx.Now(),
					Error: "section certManager: error converting YAML to JSON: yaml: line 3: mapping values are not allowed in this context",
				})
			}
			sleep(time.Minute)
			w.raise(onConfigMap("4713"))
			sleep(time.Minute)
			return 0
		},
		"merged": func(w *fixture) uint64 {
			w.takes(string(lifecycle.ModuleKubernetesEvent), time.Minute)
			w.start()
			for range 4 {
				ev := on(lifecycle.OnModuleKubeEvent, "cert-manager", "20-secrets.sh", "secrets")
				ev.Queue = "secrets"
				ev.Object = &store.ObjectRef{Event: "Added", Kind: "Secret", Namespace: "default", Name: "tls", ResourceVersion: "99"}
				w.raise(ev)
			}
			sleep(61 * time.Second)
			return 3
		},
		"merged-done": func(w *fixture) uint64 {
			scenes()["merged"](w)
			sleep(time.Minute)
			return 2
		},
		"joined": func(w *fixture) uint64 {
			w.takes("release-upgrade cert-manager", time.Minute)
			w.start()
			for range 3 {
				w.raise(on(lifecycle.OnResourcesAbsent, "cert-manager"))
			}
			return 3
		},
		"blocked": func(w *fixture) uint64 {
			scenes()["failing-head"](w)
			return 5
		},
		"front": func(w *fixture) uint64 {
			w.discovers("cert-manager")
			w.takes("release-upgrade cert-manager", time.Minute)
			w.start(onStart)
			w.raise(onConfigMap("4711"))
			return 2
		},
		"behind-front": func(w *fixture) uint64 {
			scenes()["front"](w)
			return 0
		},
		"deferred": func(w *fixture) uint64 {
			w.says(string(lifecycle.ReleaseCheck))
			w.items[lifecycle.ModuleAfterHelm] = hooks("cert-manager", "10-count.sh")
			w.says(string(lifecycle.ModuleAfterHelm), lifecycle.ModuleChanged)
			w.start(on(lifecycle.OnResourcesAbsent, "cert-manager"))
			sleep(3 * time.Second)
			return 0
		},
		"allowed": func(w *fixture) uint64 {
			w.fails(string(lifecycle.GlobalScheduleEvent), "hook 50-cleanup.sh exited with 3: no space left on device")
			ev := on(lifecycle.OnGlobalSchedule, "", "50-cleanup.sh", "nightly")
			ev.AllowFailure = true
			w.start(ev)
			return 0
		},
		"skipped": func(w *fixture) uint64 {
			w.discovers("ingress-nginx")
			w.fails("release-upgrade ingress-nginx", helmError)
			w.start(onStart)
			sleep(time.Second)
			task := w.snapshot(0).Problems[0].Task
			if err := w.e.Skip(task, "ann", "the image comes tomorrow"); err != nil {
				w.t.Fatal(err)
			}
			synctest.Wait()
			return 0
		},
		"delete": func(w *fixture) uint64 {
			w.says(string(lifecycle.ModuleDelete), lifecycle.Unwanted)
			w.set(string(lifecycle.DiscoverModules), func(context.Context, workflow.Task) (workflow.Outcome, error) {
				return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{
					lifecycle.Enabled: modules("cert-manager"), lifecycle.Disabled: modules("velero"), lifecycle.Unknown: modules("old"),
				}}, nil
			})
			w.takes(string(lifecycle.ModuleKubernetesEvent), time.Hour)
			ev := on(lifecycle.OnModuleKubeEvent, "velero", "10-backups.sh", "backups")
			ev.Queue = "backups"
			w.start(ev, onStart)
			sleep(10 * time.Second)
			return 2
		},
		"sixty-modules": func(w *fixture) uint64 {
			w.discovers(names("module", 60)...)
			w.fails("release-upgrade module-41", helmError)
			w.start(onStart)
			sleep(17 * time.Second)
			return 0
		},
	}
}

func TestEveryStateOfARunReadsWellInEightyColumns(t *testing.T) {
	t.Parallel()
	for name, scene := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.shows(name+".txt", scene(w))
			})
		})
	}
}

func TestBrokenModulesAndQueuesThatStandStillNeedAttention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("cert-manager")
		w.takes("release-upgrade cert-manager", time.Hour)
		w.start(onStart)
		err := w.db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("velero"), store.Module{State: store.Off, Broken: "modules/300-velero/values.yaml: yaml: line 2: did not find expected key"})
		})
		if err != nil {
			t.Fatal(err)
		}
		run := w.read(inspect.Reader{Live: true, Stalled: map[string]string{"main": "the disk is full"}}, 0)
		compare(t, "broken.txt", inspect.Text(run, layout))
	})
}

func TestAFullDiskIsAProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(onStart)
		full := &store.Shortage{Since: time.Now(), Err: errors.New("no space left for the store")}
		run := w.read(inspect.Reader{Live: true, Full: full}, 0)
		text := inspect.Text(run, layout)
		if !run.Attention() || !strings.Contains(text, "no task starts, because the disk is full, since ") || !strings.Contains(strings.Join(strings.Fields(text), " "), "no space left for the store") {
			t.Errorf("inspect says\n%s", text)
		}
	})
}

func TestStoppedStoreSaysWhereItGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		scenes()["failing-head"](w)
		stopped := layout
		stopped.Source = "store /var/lib/addon-operator/store.db, written 3m ago; no operator runs"
		compare(t, "stopped.txt", inspect.Text(w.read(inspect.Reader{}, 0), stopped))
	})
}

func TestStoppedStoreWithAnUnreadableRecordIsShownWithThatProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(onStart)
		if err := w.db.Update(func(tx *store.Tx) error {
			tx.Put(store.StartupKey(), []byte(`{"mode":`))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		run := w.read(inspect.Reader{}, 0)
		text := strings.Join(strings.Fields(inspect.Text(run, layout)), " ")
		if run.ID != 1 || !run.Attention() || !strings.Contains(text, "cannot be read") || !strings.Contains(text, "start the operator") {
			t.Errorf("inspect shows run %d:\n%s", run.ID, text)
		}
	})
}

func TestLooksSayTheSameInOtherWays(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]inspect.Layout{
		"ascii.txt":  {Program: "addon-operator", ASCII: true},
		"colour.txt": {Program: "addon-operator", Colour: true, Width: 70},
		"all.txt":    {Program: "addon-operator", All: true},
		"wide.txt":   {Program: "addon-operator", Wide: true, Width: 80, More: " --debug-unix-socket /run/x"},
		"low.txt":    {Program: "addon-operator", Height: 22},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				scenes()["failing-head"](w)
				text := inspect.Text(w.snapshot(0), l)
				if l.Colour {
					compareAny(t, name, text)
					return
				}
				compare(t, name, text)
			})
		})
	}
}

func TestUnknownRunIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(on(lifecycle.OnGlobalSchedule, "", "h", "b"))
		r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}}
		err := w.db.View(func(tx *store.Tx) error {
			_, err := r.Run(tx, inspect.Request{Run: 99})
			return err
		})
		if !errors.Is(err, inspect.ErrNoRun) {
			t.Errorf("the error for an unknown run is %v", err)
		}
	})
}

func TestForgottenAttemptsOfAnOpenRunAreCounted(t *testing.T) {
	t.Parallel()
	const steps, tries, kept, read = 25, 300, 101, 2000
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		var attempts *store.Attempts
		if err := w.db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnStart), Began: tx.Now(), Open: 1}); err != nil {
				return err
			}
			task := &store.Task{
				ID: store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, Graph: lifecycle.Graph.Name, Node: string(lifecycle.ModuleRun), Run: 1, Queued: tx.Now(),
				Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot}, Subject: graph.Subject{Module: "m0"},
			}
			for try := range tries {
				for m := range steps {
					r := store.Record{Run: 1, Task: task.ID, Node: task.Node, Subject: graph.Subject{Module: fmt.Sprint("m", m)}, Queue: workflow.Main, State: store.Failed, Error: "no", Try: try + 1}
					if err := store.AddRecord(tx, r); err != nil {
						return err
					}
				}
			}
			return store.SaveTask(tx, task)
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.db.View(func(tx *store.Tx) (err error) {
			attempts, err = store.ExcessAttempts(tx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if err := w.db.Update(func(tx *store.Tx) (err error) {
				_, more, err = attempts.Forget(tx)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		run := w.read(inspect.Reader{}, 1)
		shown := 0
		if err := w.db.View(func(tx *store.Tx) error {
			for _, err := range store.RecordsOf(tx, 1) {
				if err != nil {
					return err
				}
				shown++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if shown != steps*kept {
			t.Fatalf("%d lines are kept, want %d", shown, steps*kept)
		}
		want := fmt.Sprintf("%d older lines of history left out", steps*tries-read)
		if text := inspect.Text(run, layout); !strings.Contains(text, want) {
			t.Errorf("inspect lacks %q:\n%s", want, text)
		}
	})
}
