package inspect_test

import (
	"context"
	"errors"
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

// TestErrorsAreExplained makes the step release-upgrade fail with errors in the words of Kubernetes, Helm, shells and
// other programs. The explanation must have the meaning of the error, if it is known.
func TestErrorsAreExplained(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`exit status 1: Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:ops:addon-operator" cannot list resource "pods" in API group "" in the namespace "shop"`:    "kubectl auth can-i list pods -n shop --as system:serviceaccount:ops:addon-operator",
		`clusterroles.rbac.authorization.k8s.io is forbidden: User "ann" cannot create resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope`:                     "kubectl auth can-i create clusterroles --as ann",
		"resource mapping not found for name: \"web\" namespace: \"\" from \"\": no matches for kind \"ServiceMonitor\" in version \"monitoring.coreos.com/v1\"\nensure CRDs are installed first": "the CRD of ServiceMonitor is missing or does not serve this version, or Kubernetes has removed this version. Check: kubectl api-resources | grep ServiceMonitor",
		`Internal error occurred: failed calling webhook "validate.policy.io": failed to call webhook: Post "https://policy.ops.svc:443/": dial tcp 10.0.0.1:443: connect: connection refused`:    "the admission webhook validate.policy.io does not respond",
		`admission webhook "limits.policy.io" denied the request: no limits`: "the policy of the admission webhook limits.policy.io rejected",
		`see https://docs.example.com: Get "https://ann:xxxxx@api.shop:8443/v1/x?y=1": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time`:         "the certificate of the server api.shop:8443 has expired, or is not valid yet",
		`Get "https://up.example.com/": EOF; Post "https://down.example.com": x509: certificate has expired or is not yet valid`:                                                                   "renew the certificate of down.example.com.",
		"exit status 60: * Connected to a.example.com (10.0.0.1) port 443 * Connected to b.example.com (10.0.0.2) port 443 curl: (60) SSL certificate problem: certificate has expired":            "the certificate of the server b.example.com has expired",
		"exit status 5: ERROR: cannot verify mirror.example.com's certificate, issued by 'CN=R3': Issued certificate has expired.":                                                                 "the certificate of the server mirror.example.com has expired",
		"requests.exceptions.SSLError: HTTPSConnectionPool(host='vault.example.com', port=443): Max retries exceeded with url: / (Caused by SSLError(1, 'certificate has expired (_ssl.c:1006)'))": "the certificate of the server vault.example.com has expired",
		"x509: certificate has expired or is not yet valid": "The error does not name the server",
		`Internal error occurred: failed calling webhook "validate.policy.io": failed to call webhook: Post "https://policy.ops.svc:443/check?timeout=5s": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time`: "the certificate of the admission webhook validate.policy.io, on the server policy.ops.svc:443, has expired",
		`Service "web" is invalid: spec.clusterIP: Invalid value: "": field is immutable`:                 "a field that cannot be changed",
		`pods "web" is forbidden: exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5`: "kubectl describe resourcequota team",
		"signal: killed": "its memory limit",
		"exit status 127: hooks/x.sh: line 3: yq: command not found":                                                   "no command yq",
		"exit status 127: hooks/x.sh: 3: yq: not found":                                                                "no command yq",
		"exit status 6: curl: (6) Could not resolve host: api":                                                         "the host name cannot be resolved",
		"exit status 7: curl: (7) Failed to connect to api port 443 after 0 ms":                                        "does not respond",
		"timed out waiting for the condition":                                                                          "kubectl get events",
		"exit status 60: curl: (60) SSL certificate problem: certificate has expired":                                  "find out which server the step calls",
		`configmaps "app" is forbidden: unable to create new content in namespace shop because it is being terminated`: "namespace shop is being deleted",
		`services "app" is forbidden: ValidatingAdmissionPolicy 'owner' with binding 'all' denied request: no owner`:   "the ValidatingAdmissionPolicy owner rejected the request",
		`conversion webhook for example.com/v1, Kind=Cron failed: Post "https://x"`:                                    "the conversion webhook for example.com/v1, Kind=Cron does not respond",
		`Unable to continue with install: ConfigMap "map" in namespace "shop" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: key "meta.helm.sh/release-name" must equal "a": current value is "b"`: "ConfigMap map in namespace shop belongs to release b",
		`Unable to continue with install: ConfigMap "map" in namespace "shop" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by"`:                                "ConfigMap map in namespace shop exists already,",
		`Unable to continue with install: ClusterRole "view" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; annotation validation error: key "meta.helm.sh/release-name" must equal "a": current value is "b"`:  "ClusterRole view belongs to release b",
		`Unable to continue with install: ClusterRole "view" in namespace "" exists and cannot be imported into the current release: invalid ownership metadata; label validation error: missing key "app.kubernetes.io/managed-by"`:                                 "ClusterRole view exists already,",
		`read ConfigMap: an error on the server ("etcdserver: request timed out") has prevented the request from succeeding`:                                                                                                                                         "etcd, the storage of the API server, failed the request: request timed out",
		`create: an error on the server ("unknown") has prevented the request from succeeding`:                                                                                                                                                                       "kubectl get --raw /readyz",
		"uninstall: release: not found":          "",
		"did not end within 1s (signal: killed)": "",
		"exit status 3: no idea":                 "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.discovers("web")
				w.fails("release-upgrade web", text)
				w.start(onStart)
				why, err := w.why("1")
				if err != nil {
					t.Fatal(err)
				}
				l := layout
				l.Width, l.Now = inspect.Unlimited, why.At
				page := inspect.WhyText(why, l)
				if known := strings.Contains(page, "What does the error mean?"); known != (want != "") || !strings.Contains(page, want) {
					t.Errorf("the explanation lacks %q:\n%s", want, page)
				}
			})
		})
	}
}

// TestWhyNamesWhatChangedBeforeAFailure makes a hook fail that has succeeded before. Between the success and the
// failure, the ConfigMap changes, and another version of the operator starts. The explanation must name both changes.
func TestWhyNamesWhatChangedBeforeAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		broken := false
		w.items[lifecycle.ModuleBeforeHelm] = hooks("web", "10-class.sh")
		w.set("module-beforehelm web/10-class.sh", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			if broken {
				return workflow.Outcome{}, errors.New("exit status 3: no class")
			}
			return workflow.Outcome{}, nil
		})
		w.raiseStart("v1")
		sleep(time.Minute)
		w.raise(edited("1")) // before the last success
		w.raise(on(lifecycle.OnRunRequest, "web"))
		sleep(time.Minute)
		w.raise(edited("2"))
		sleep(time.Minute)
		w.raise(event("web", "20-pods.sh")) // an event is not a change
		broken = true
		w.close()
		w.open()
		w.raiseStart("v2")
		sleep(time.Minute)
		w.raise(edited("3")) // after the first failure
		why, err := w.why("web/10-class.sh")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now = why.At
		compare(t, "why-changed.txt", inspect.WhyText(why, l))

		w.close()
		w.open()
		stopped := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}}
		if err := w.db.View(func(tx *store.Tx) (err error) {
			why, err = stopped.Why(tx, "web/10-class.sh")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if text := why.Answers[0].Causes[0].Text; !strings.HasSuffix(text, "; it is tried again when an operator starts") {
			t.Errorf("without an operator the nearest cause is %q", text)
		}
	})
}

// raiseStart starts the engine with a start run, and records the start of an operator with the given version.
func (w *fixture) raiseStart(version string) {
	w.t.Helper()
	if err := w.e.Start(func(tx *store.Tx) ([]workflow.Event, error) {
		return []workflow.Event{onStart}, store.AddStart(tx, version, "")
	}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// crash ends the process as a crash does. A minute later, the next process starts a converge.
func (w *fixture) crash() {
	w.t.Helper()
	w.e.Stop()
	w.update(func(tx *store.Tx) error { return store.Save(tx, store.EndsKey(), store.Ends{Begun: w.db.Epoch()}) })
	w.close()
	w.open()
	sleep(time.Minute)
	w.raiseStart("v1")
}

func TestWhyOfAModuleNamesTheStepThatKeepsAllModulesWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.start(onStart)
		sleep(time.Minute)
		if err := w.db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, RanIn: 1, RanAt: tx.Now()})
		}); err != nil {
			t.Fatal(err)
		}
		w.fails("discover-modules", "module web: enabled script: exit status 1")
		w.raise(on(lifecycle.OnReloadRequest))
		why, err := w.why("web")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Width, l.Now = inspect.Unlimited, why.At
		page := inspect.WhyText(why, l)
		for _, want := range []string{
			"Why does nothing run for module web?", "discover-modules fails: module web: enabled script: exit status 1",
			"no converge installs, upgrades or deletes a module until this step succeeds", "correct what the error names",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the explanation lacks %q:\n%s", want, page)
			}
		}
	})
}

func TestAHookAndTheOperatorThatLackTheSameRightAreOneFinding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web", "shop")
		w.items[lifecycle.ModuleBeforeHelm] = hooks("web", "hooks/hook.sh")
		const right = `User "system:serviceaccount:ops:operator" cannot create resource "services" in API group "" in the namespace "shop"`
		w.raiseStart("v1")
		sleep(time.Minute)
		w.fails(string(lifecycle.ModuleKubernetesEvent), "exit status 1: services is forbidden: "+right)
		w.fails("release-upgrade shop", "create Service: services is forbidden: "+right)
		w.raise(event("web", "hook.sh"), on(lifecycle.OnRunRequest, "shop"))
		sleep(20 * time.Second)
		findings := w.diagnose(inspect.Reader{Live: true}, inspect.StatusOperator{}).Findings
		if len(findings) != 1 {
			t.Fatalf("the findings are %+v", findings)
		}
		const want = "2 steps fail: RBAC does not allow the operator itself (system:serviceaccount:ops:operator) to create services in namespace shop"
		if f := findings[0]; f.Text != want || len(f.Evidence) < 2 {
			t.Errorf("the finding is %+v, want %q with both steps", f, want)
		}
	})
}

func TestTheOperatorIsNamedAsTheUserWithoutRightsAndAsTheFieldManager(t *testing.T) {
	t.Parallel()
	const text = `services is forbidden: User "system:serviceaccount:ops:operator" cannot create resource "services" in API group "" in the namespace "shop"`
	const own = "RBAC does not allow the operator itself (system:serviceaccount:ops:operator) to create services in namespace shop"
	for failing, c := range map[string]struct {
		text string
		own  bool
	}{
		"release-upgrade web":                 {text, true},
		"module-beforehelm web/hooks/hook.sh": {text, false},
		"release-check web":                   {`admission webhook "owner" denied the request: ` + text, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t)
			w.discovers("web")
			w.items[lifecycle.ModuleBeforeHelm] = hooks("web", "hooks/hook.sh")
			w.fails(failing, c.text)
			w.start(onStart)
			s := w.status(inspect.Reader{Live: true})
			if len(s.Problems) != 1 || s.Problems[0].Meaning == nil || (s.Problems[0].Meaning.What == own) != c.own {
				t.Errorf("%s: the problems are %+v", failing, s.Problems)
			}
		})
	}
	for manager, want := range map[string]string{
		"addon-operator":                 "field manager addon-operator, the operator itself or a patch of one of its hooks",
		"addon-operator (status)":        "field manager addon-operator (status), the operator itself or a patch of one of its hooks",
		"addon-operator or kubectl-edit": "field manager addon-operator or kubectl-edit",
		"addon-operator-2":               "field manager addon-operator-2",
	} {
		if got := (&inspect.Run{Cause: store.Cause{Manager: manager}}).CauseText(); got != want {
			t.Errorf("the cause is %q, want %q", got, want)
		}
	}
}

// TestAShortTerminalShowsWhatChangedBeforeTheFailure explains a failing deletion. The answers have more lines than the
// terminal, but the change before the failure must be shown.
func TestAShortTerminalShowsWhatChangedBeforeTheFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.raiseStart("v1")
		sleep(time.Minute)
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.Deleting, Why: "disabled by ConfigMap key webEnabled"})
		})
		w.set(string(lifecycle.DiscoverModules), func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.Disabled: modules("web")}}, nil
		})
		w.says(string(lifecycle.ModuleDelete), lifecycle.Unwanted)
		w.says(string(lifecycle.ConfigMapChanged), lifecycle.FlagsChanged)
		w.fails("release-delete web", `services "web" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'all' denied request: `+strings.Repeat("a long story ", 20))
		w.raise(edited("2"))
		why, err := w.why("web")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now = why.At
		compare(t, "why-deletion.txt", inspect.WhyText(why, l))
	})
}

// TestWhyOfAFailingReleaseNamesTheRevisionThatStays makes the step release-check fail for a module with an installed
// revision. The explanation must name this revision.
func TestWhyOfAFailingReleaseNamesTheRevisionThatStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.raiseStart("v1")
		sleep(time.Minute)
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.ReleaseKey("web"), store.Release{Revision: 3})
		})
		w.fails("release-check web", "template: web/templates/map.yaml:4:20: set web.replicaCount")
		w.raise(on(lifecycle.OnRunRequest, "web"))
		why, err := w.why("2")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now = why.At
		text := oneLine(inspect.WhyText(why, l))
		for _, want := range []string{
			"What is the state meanwhile? - revision 3 is the last one that was installed in full", "00:00:00Z the step succeeded last; since then, the history has no change",
			"fix: correct what the error names: the chart of the module, or values in its values.yaml or in the ConfigMap",
			"then: addon-operator task retry", "or: addon-operator task skip 1-16 --reason TEXT # leave it to the next run",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the explanation lacks %q:\n%s", want, inspect.WhyText(why, l))
			}
		}
	})
}

func TestWhyNamesWhatChangedBeforeAModuleCouldNotBeLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.raiseStart("v1")
		ran := w.db.Now()
		sleep(time.Minute)
		reload := on(lifecycle.OnReloadRequest)
		reload.Cause.By = "ann"
		w.raise(reload)
		sleep(time.Minute)
		w.raise(on(lifecycle.OnModuleMended))
		sleep(time.Minute)
		w.raise(on(lifecycle.OnAddonsChanged))
		broken := w.db.Now()
		sleep(time.Minute)
		w.raise(edited("1")) // after the module broke
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true, RanIn: 1, RanAt: ran, Broken: "values.yaml: line 3", BrokenSince: broken})
		})
		why, err := w.why("web")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now = why.At
		const want = "What changed before it failed? 00:03:00Z addons changed 00:02:00Z module mended 00:01:00Z reload requested: by ann " +
			"Why is module web enabled?"
		if text := inspect.WhyText(why, l); !strings.Contains(oneLine(text), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, text)
		}
	})
}
