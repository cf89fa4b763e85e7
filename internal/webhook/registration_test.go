package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"addon-operator/internal/kube"
)

// registrar returns a registrar without a client, for the operator in namespace ops.
func registrar() *Registrar {
	return &Registrar{options: RegistrarOptions{Name: "addon-operator", Namespace: "ops"}, registered: map[string]Table{}, refused: map[string]error{}}
}

func TestAConfigurationIsTakenOverOnlyIfAllOfItLeadsHere(t *testing.T) {
	t.Parallel()
	service := func(namespace, name string) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: name}}}
	}
	at := func(url string) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}
	}
	here, outside := Place{Service: "addon-operator"}, Place{URL: "https://10.0.0.1:9680"}
	for name, c := range map[string]struct {
		place Place
		owner string
		hooks []admissionv1.MutatingWebhook
		want  bool
	}{
		"our Service":                  {here, "", []admissionv1.MutatingWebhook{service("ops", "addon-operator")}, true},
		"no webhook":                   {here, "", nil, false},
		"another Service":              {here, "", []admissionv1.MutatingWebhook{service("ops", "policy")}, false},
		"a Service elsewhere":          {here, "", []admissionv1.MutatingWebhook{service("shop", "addon-operator")}, false},
		"one of two leads elsewhere":   {here, "", []admissionv1.MutatingWebhook{service("ops", "addon-operator"), service("ops", "policy")}, false},
		"an operator owns it":          {here, "shop", []admissionv1.MutatingWebhook{service("ops", "addon-operator")}, false},
		"our URL":                      {outside, "", []admissionv1.MutatingWebhook{at("https://10.0.0.1:9680/hooks/x")}, true},
		"a URL that begins like ours":  {outside, "", []admissionv1.MutatingWebhook{at("https://10.0.0.1:96801/hooks/x")}, false},
		"a Service, although by URL":   {outside, "", []admissionv1.MutatingWebhook{service("ops", "addon-operator")}, false},
		"a URL, although by a Service": {here, "", []admissionv1.MutatingWebhook{at("https://10.0.0.1:9680/hooks/x")}, false},
		"no address":                   {outside, "", []admissionv1.MutatingWebhook{{}}, false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		want := "somebody else"
		if c.owner != "" {
			o.SetLabels(map[string]string{ownerLabel: c.owner})
			want = "the operator in namespace " + c.owner
		}
		if got := registrar().mayTake(o, c.hooks, c.place); got != c.want {
			t.Errorf("%s: it may be taken over: %t, want %t", name, got, c.want)
		}
		if got := ownerOf(o); got != want {
			t.Errorf("%s: its owner is %q, want %q", name, got, want)
		}
	}
}

// TestWebhooksHaveUniqueNamesThatStayWhenOneIsRefused uses three validating bindings with the same
// name, and one mutating binding with this name. The webhooks of a configuration must have different
// names. If the API server refuses one of them, the names of the others must not change.
func TestWebhooksHaveUniqueNamesThatStayWhenOneIsRefused(t *testing.T) {
	t.Parallel()
	r := registrar()
	want := Wanted{Admission: Place{Service: "addon-operator", Bundle: []byte("CA")}}
	for _, hook := range []string{"a.sh", "b.sh", "c.sh"} {
		a := admission("pods.example.com", false)
		a.Hook = hook
		want.Admissions = append(want.Admissions, a)
	}
	want.Admissions = append(want.Admissions, admission("pods.example.com", true))
	names := func(kind admissionKind) (names []string) {
		hooks, of := r.webhooks(kind, want)
		for i, h := range hooks {
			names = append(names, of[i].Hook+" "+h.Name)
			if *h.ClientConfig.Service.Path != of[i].path() || h.ClientConfig.Service.Namespace != "ops" || *h.ClientConfig.Service.Port != 443 || string(h.ClientConfig.CABundle) != "CA" {
				t.Errorf("%s is called at %+v", h.Name, h.ClientConfig)
			}
			// The API server stores defaults for these fields. If the registrar did not set them,
			// each comparison with the stored configuration would find a difference.
			if h.NamespaceSelector == nil || h.ObjectSelector == nil || *h.MatchPolicy != admissionv1.Equivalent || (h.ReinvocationPolicy != nil) != kind.mutating {
				t.Errorf("%s lacks a default: %+v", h.Name, h)
			}
		}
		return names
	}
	for kind, want := range map[*admissionKind][]string{
		&validating: {"a.sh pods.example.com", "b.sh 2.pods.example.com", "c.sh 3.pods.example.com"}, &mutating: {"hooks/x.sh pods.example.com"},
	} {
		if diff := cmp.Diff(want, names(*kind)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind.kind, diff)
		}
	}
	r.refused[want.Admissions[1].path()] = errors.New("no")
	if diff := cmp.Diff([]string{"a.sh pods.example.com", "c.sh 3.pods.example.com"}, names(validating)); diff != "" {
		t.Errorf("without the refused one (-want +got):\n%s", diff)
	}
}

func TestErrorsOfTheAPIServerAreThoseOfSingleBindings(t *testing.T) {
	t.Parallel()
	of := []Admission{admission("a.example.com", false), admission("b.example.com", false)}
	invalid := func(fields ...string) error {
		var list field.ErrorList
		for _, f := range fields {
			list = append(list, field.Invalid(field.NewPath(f), "x", "is wrong"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "ValidatingWebhookConfiguration"}, "hooks", list)
	}
	for name, c := range map[string]struct {
		err  error
		want map[int][]string // expected texts by the index of the binding; nil if the function refusals must return err
	}{
		"one field":             {invalid("webhooks[1].rules[0].scope"), map[int][]string{1: {"rules[0].scope: "}}},
		"fields of two":         {invalid("webhooks[0].name", "webhooks[1].rules", "webhooks[0].timeoutSeconds"), map[int][]string{0: {"name: ", "timeoutSeconds: "}, 1: {"rules: "}}},
		"a field of the object": {invalid("metadata.name"), nil},
		"one of each":           {invalid("metadata.name", "webhooks[0].name"), map[int][]string{0: {"name: "}}},
		"a webhook that is not": {invalid("webhooks[7].name", "webhooks[99999999999999999999].name"), nil},
		"another error":         {apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("changed")), nil},
		"no error":              {nil, nil},
	} {
		got := refusals(c.err, of)
		var refusal *refusedError
		if !errors.As(got, &refusal) {
			if c.want != nil || !errors.Is(got, c.err) {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		paths := []string{}
		for i, parts := range c.want {
			path := of[i].path()
			paths = append(paths, path)
			for _, part := range parts {
				if why := refusal.why[path]; why == nil || !strings.Contains("\n"+why.Error(), "\n"+part) || refusal.of[path].Config.Name != of[i].Config.Name {
					t.Errorf("%s: binding %d is refused with %v, want %q", name, i, why, part)
				}
			}
		}
		slices.Sort(paths)
		if len(paths) == 0 {
			t.Errorf("%s: no binding is refused by %v", name, refusal) // if no binding were refused after an error, the registrar would write the same webhooks again and again
		}
		if found := slices.Sorted(maps.Keys(refusal.why)); !slices.Equal(found, paths) || refusal.Error() != fmt.Sprintf("%d webhooks are rejected by the API server", len(paths)) {
			t.Errorf("%s: %v of %q, want %q", name, refusal, found, paths)
		}
	}
}

func TestURLOfWebhooksIsOneThatTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	for url, c := range map[string]struct {
		valid  bool
		called string // the expected URL of a side that listens on port 9680
		both   bool   // one address is used for admission and conversion reviews
	}{
		"https://10.0.0.1":               {true, "https://10.0.0.1:9680", false},
		"https://10.0.0.1/":              {true, "https://10.0.0.1:9680", false},
		"https://10.0.0.1:8443/":         {true, "https://10.0.0.1:8443", true},
		"https://operator.example.com":   {true, "https://operator.example.com:9680", false},
		"https://[2001:db8::1]":          {true, "https://[2001:db8::1]:9680", false},
		"https://[2001:db8::1]:8443":     {true, "https://[2001:db8::1]:8443", true},
		"https://xn--mnchen-3ya.example": {true, "https://xn--mnchen-3ya.example:9680", false},
		"https://münchen.example":        {},
		"https://m%C3%BCnchen.example":   {},
		"http://10.0.0.1":                {},
		"10.0.0.1:8443":                  {},
		"https://":                       {},
		"https://:8443":                  {},
		"https://10.0.0.1/hooks":         {},
		"https://10.0.0.1?x=y":           {},
		"https://10.0.0.1:https":         {},
		"https://10.0.0.1#x":             {},
		"https://ann:hunter2@10.0.0.1/":  {},
	} {
		err := CheckURL(url)
		if (err == nil) != c.valid {
			t.Errorf("%s: error %v", url, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "must be https://HOST or https://HOST:PORT") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: error %v", url, err)
		}
		o := EndpointOptions{URL: url}
		if c.valid && (o.urlOf(9680) != c.called || o.oneSided() != c.both) {
			t.Errorf("%s: the API server calls %s, for both sides: %t", url, o.urlOf(9680), o.oneSided())
		}
	}
	if err := CheckURL(""); err != nil {
		t.Errorf("without a URL: %v", err)
	}
	g := &Endpoint{options: EndpointOptions{
		URL: "https://10.0.0.1:8443", Admission: Side{Service: "validating"}, Conversion: Side{Service: "conversion"}, Registrar: RegistrarOptions{Namespace: "ops"},
	}}
	if diff := cmp.Diff([]string{"validating.ops.svc", "validating.ops", "conversion.ops.svc", "conversion.ops", "10.0.0.1"}, g.hosts()); diff != "" {
		t.Errorf("names in the certificate (-want +got):\n%s", diff)
	}
}

func TestSettingsOfCertificatesAreCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	for lifetime, want := range map[time.Duration]string{10 * time.Second: "", time.Hour: "", 9 * time.Second: "must be at least 10s (got 9s)", -time.Hour: "must be at least 10s (got -1h0m0s)"} {
		if err := CheckLifetime(lifetime); fmt.Sprint(err) != want && (err != nil || want != "") {
			t.Errorf("%s: error %v, want %q", lifetime, err, want)
		}
	}
	dir := t.TempDir()
	if files := FilesIn(dir); files != (Files{}) || (Side{Files: files}).CheckFiles() != nil {
		t.Errorf("a directory without a certificate has %+v", files)
	}
	if err := os.WriteFile(dir+"/tls.crt", []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := FilesIn(dir)
	if files != (Files{dir + "/tls.crt", dir + "/tls.key", dir + "/ca.crt"}) {
		t.Errorf("the files of a mounted Secret are %+v", files)
	}
	if err := (Side{Files: files}).CheckFiles(); err == nil || !strings.Contains(err.Error(), dir+"/tls.crt with key "+dir+"/tls.key") {
		t.Errorf("files without a key: %v", err)
	}
	if err := (Side{ClientCAs: []string{dir + "/tls.crt"}}).CheckClients(); err == nil || !strings.Contains(err.Error(), dir+"/tls.crt") {
		t.Errorf("a client CA without a certificate: %v", err)
	}
	if err := (Side{}).CheckClients(); err != nil {
		t.Errorf("without client CAs: %v", err)
	}
}

// TestChangesOfOthersAreRevertedLessAndLessOften records twelve reverts of an object, each after the
// required pause. The pauses must grow up to a maximum. Then it records a revert after a long time
// without changes. The pause after this revert must be the shortest one again.
func TestChangesOfOthersAreRevertedLessAndLessOften(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := &reverts{}
	if pause := h.pause(now); pause > 0 {
		t.Errorf("the first change is reverted after %s", pause)
	}
	var pauses []float64 // in seconds
	for range 12 {
		h.reverted(now)
		pause := h.pause(now)
		pauses = append(pauses, pause.Seconds())
		now = now.Add(pause)
	}
	want := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	now = now.Add(time.Hour)
	if h.reverted(now); h.pause(now) != healFirst {
		t.Errorf("after an hour without a change, the pause is %s", h.pause(now))
	}
}

func TestAnObjectDoesNotWaitForThePauseOfAnother(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := registrar()
	r.options.Clock, r.tidy = func() time.Time { return now }, true
	client, err := kube.NewClient(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	r.notifier = kube.NewNotifier(client, kube.Observer{}, func() {})
	for _, c := range []struct{ mutating, validating time.Duration }{{5 * time.Minute, time.Second}, {time.Second, 5 * time.Minute}} {
		r.reverts = map[string]*reverts{
			mutating.resource.Resource:   {last: now, delay: c.mutating},
			validating.resource.Resource: {last: now, delay: c.validating},
		}
		if wait, _, err := r.reconcile(t.Context(), Wanted{}, false); err != nil || wait != time.Second {
			t.Errorf("pauses %+v: it reconciles again after %s, error %v", c, wait, err)
		}
	}
}

// A failed withdrawal has no effect later: otherwise, the operator would delete the configurations once it can.
func TestAFailedWithdrawalChangesNothing(t *testing.T) {
	t.Parallel()
	client, err := kube.NewClient(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		was  bool // an earlier withdrawal has succeeded
		busy bool // configurations are written until the command ends
		want string
	}{
		"the API server does not respond":                      {false, false, "list validatingwebhookconfigurations: "},
		"the API server does not respond, after a first call":  {true, false, "list validatingwebhookconfigurations: "},
		"configurations are being written":                     {false, true, "wait until webhook configurations are written: "},
		"configurations are being written, after a first call": {true, true, "wait until webhook configurations are written: "},
	} {
		g := NewEndpoint(EndpointOptions{Registrar: RegistrarOptions{Client: client, Name: "addon-operator", Namespace: "ops", Clock: time.Now}})
		g.registrar.withdrawn = c.was
		ctx, cancel := context.WithCancel(t.Context())
		if c.busy {
			g.registrar.reconciling <- struct{}{}
			cancel()
		}
		if deleted, err := g.Withdraw(ctx); err == nil || !strings.Contains(err.Error(), c.want) || deleted != nil {
			t.Errorf("%s: %q deleted, error %v", name, deleted, err)
		}
		cancel()
		if g.registrar.withdrawn != c.was || !g.registrar.altered || len(g.registrar.wake) != 1 {
			t.Errorf("%s: withdrawn afterwards: %t, and the registrar reconciles: %t", name, g.registrar.withdrawn, g.registrar.altered)
		}
	}
}

// An object that refers to an address which is not served yet must stay: an earlier process has written it, and the API
// server rejects requests because of it until the address is served.
func TestObjectsOfAnAddressThatIsNotServedStay(t *testing.T) {
	t.Parallel()
	client, err := kube.NewClient(&rest.Config{Host: "https://127.0.0.1:1"}) // each request fails
	if err != nil {
		t.Fatal(err)
	}
	here := Place{Service: "addon-operator", Bundle: []byte("CA")}
	table := Table{Admissions: []Admission{admission("a.example.com", false)}, Conversions: conversionsOf([2]string{"v1", "v2"}), Complete: true}
	for name, c := range map[string]struct {
		want     Wanted
		requests []string // resources that reconcile requests
	}{
		"none":            {Wanted{Table: table}, nil},
		"only admission":  {Wanted{Table: table, Admission: here}, []string{"validatingwebhookconfigurations"}},
		"only conversion": {Wanted{Table: table, Conversion: here}, []string{"customresourcedefinitions"}},
		"both":            {Wanted{Table: table, Admission: here, Conversion: here}, []string{"validatingwebhookconfigurations", "customresourcedefinitions"}},
	} {
		r := registrar()
		r.options.Clock, r.options.Client = time.Now, client
		r.notifier = kube.NewNotifier(client, kube.Observer{}, func() {})
		r.reverts, r.converted = map[string]*reverts{}, map[string]bool{}
		r.tidy = true
		_, _, err := r.reconcile(t.Context(), c.want, true)
		for _, resource := range []string{"validatingwebhookconfigurations", "customresourcedefinitions"} {
			if got := err != nil && strings.Contains(err.Error(), "/"+resource+"/"); got != slices.Contains(c.requests, resource) {
				t.Errorf("%s: %s requested: %t", name, resource, got)
			}
		}
	}
}
