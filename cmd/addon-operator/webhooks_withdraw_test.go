package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
)

// admissionHook adds a global hook with a validating binding that matches no request of the test.
func (s *fixture) admissionHook() {
	s.file("global-hooks/check.sh", hookText(`{"configVersion":"v1","kubernetesValidating":[{"name":"check.example.com","namespace":{"labelSelector":{"matchLabels":{"none":"such"}}},`+
		`"rules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["things"],"operations":["CREATE","UPDATE"]}]}]}`,
		`echo '{"allowed":true}' > $VALIDATING_RESPONSE_PATH`))
}

// webhookFlags returns flags with which the webhooks of an operator listen on free ports. The names of its webhook
// configurations begin with the namespace, so that operators of different tests do not share them.
func webhookFlags(namespace string) []string {
	return []string{
		"--webhook-url", "https://127.0.0.1", "--validating-webhook-listen-port", "0", "--conversion-webhook-listen-port", "0",
		"--validating-webhook-configuration-name", namespace,
	}
}

// configured reports whether the operator in namespace has a ValidatingWebhookConfiguration.
func configured(t *testing.T, k kubernetes.Interface, namespace string) bool {
	t.Helper()
	found, err := k.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(t.Context(),
		metav1.ListOptions{LabelSelector: "addon-operator/webhooks-of=" + namespace})
	if err != nil {
		t.Fatal(err)
	}
	return len(found.Items) == 1
}

// succeeding runs a command of the program in a process of its own, and returns its output. If the command fails, the
// test fails.
func succeeding(t *testing.T, verb ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := process(t, verb...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if _, ended := err.(*exec.ExitError); !ended { //nolint:errorlint // the client returns this error unwrapped
			t.Fatal(err)
		}
		t.Errorf("%q: %v\n%s", verb, err, out.String())
	}
	return out.String()
}

// storedRejections reports whether the store has a problem that says which requests the API server rejects while no
// operator runs. The operator stores this problem after it has registered the webhook.
func (s *fixture) storedRejections() bool {
	return strings.Contains(succeeding(s.t, "store", "dump", "problems", "--debug-unix-socket", s.path("socket")), "webhook configuration")
}

// TestWebhooksWithFailAreShownOnceTheOperatorIsStoppedAndCanBeWithdrawn withdraws the webhook configurations of a
// stopped operator, of a running operator, and at a shutdown.
func TestWebhooksWithFailAreShownOnceTheOperatorIsStoppedAndCanBeWithdrawn(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	k := client(t, c)
	registered := func() bool { return configured(t, k, namespace) }
	s := newFixture(t)
	s.admissionHook()
	start := func(more ...string) {
		s.start(c.Kubeconfig(), namespace, append(webhookFlags(namespace), more...)...)
		s.converged()
		s.until("the webhook is registered", registered)
	}
	ask := func(verb ...string) string { return succeeding(t, verb...) }
	const rejects = "while no operator runs, the API server rejects CREATE, UPDATE of example.com/things in namespaces with none=such: webhook check.example.com of hook check.sh has failurePolicy Fail"
	inspect := func() string { return ask("workflow", "inspect", "--store", s.path("store.db")) }
	stop := func() {
		t.Helper()
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
	}

	// The webhook configuration of a stopped operator remains. The command "workflow inspect" reports the requests that
	// the API server rejects because of this configuration, and the command "webhooks withdraw" deletes the
	// configuration.
	start()
	if text := ask("workflow", "inspect", "--debug-unix-socket", s.path("socket")); strings.Contains(text, "rejects") {
		t.Errorf("while it runs, inspect says\n%s", text)
	}
	s.until("its rejections are stored", s.storedRejections)
	stop()
	if text := inspect(); !registered() || !strings.Contains(text, rejects) || !strings.Contains(text, "webhooks withdraw --namespace "+namespace) {
		t.Errorf("once it is stopped, inspect says\n%s", text)
	}
	if text := ask("webhooks", "withdraw", "--store", s.path("store.db"), "--kube-config", c.Kubeconfig(), "--namespace", namespace); registered() ||
		!strings.Contains(text, "ValidatingWebhookConfiguration "+namespace+"-hooks deleted") {
		t.Errorf("the command says\n%s", text)
	}

	// On request, a running operator deletes the configuration. The operator creates the
	// configuration again only at its next start.
	start()
	s.until("its rejections are stored", s.storedRejections)
	if text := ask("webhooks", "withdraw", "--debug-unix-socket", s.path("socket")); !strings.Contains(text, "deleted") {
		t.Errorf("the command says\n%s", text)
	}
	if s.storedRejections() {
		t.Error("once it is withdrawn, its rejections are still stored")
	}
	for range 20 {
		if time.Sleep(50 * time.Millisecond); registered() {
			t.Fatal("it was made again")
		}
	}
	stop()
	if text := inspect(); strings.Contains(text, rejects) {
		t.Errorf("once it is withdrawn, inspect says\n%s", text)
	}

	// At the shutdown of an operator outside of a pod, the setting "scaled-to-zero" deletes
	// nothing. The setting "always" deletes the configuration.
	start("--withdraw-webhooks-on-shutdown", "scaled-to-zero")
	stop()
	if !registered() {
		t.Error("it was withdrawn without a pod that is scaled to zero")
	}
	start("--withdraw-webhooks-on-shutdown", "always")
	stop()
	if text := inspect(); registered() || strings.Contains(text, rejects) {
		t.Errorf("it was not withdrawn at the shutdown; inspect says\n%s", text)
	}
}

func TestAStandbyRefusesToWithdrawWebhooksAndKeepsThemWhenItTakesOver(t *testing.T) {
	c := cluster.Start(t)
	namespace := c.Namespace(t)
	k := client(t, c)
	registered := func() bool { return configured(t, k, namespace) }
	a, b := newFixture(t), newFixture(t)
	for _, s := range []*fixture{a, b} {
		s.admissionHook()
	}
	a.start(c.Kubeconfig(), namespace, webhookFlags(namespace)...)
	a.converged()
	a.until("the webhook is registered", registered)
	b.start(c.Kubeconfig(), namespace, webhookFlags(namespace)...)
	b.until("it is a standby", func() bool { return strings.HasPrefix(b.get("/readyz"), "Standby: ") })
	out, err := process(t, "webhooks", "withdraw", "--debug-unix-socket", b.path("socket")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "it waits for the Lease") {
		t.Errorf("the standby says: %s (%v)", out, err)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	b.converged()
	// The store of b is new, so no hooks are attached in b yet. For this reason, b first deletes the configuration of a.
	// The stored rejections show that the configuration is the one of b.
	b.until("it registers the webhook", b.storedRejections)
	configurations := k.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if err := configurations.Delete(t.Context(), namespace+"-hooks", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the webhooks were withdrawn: %v", err)
	}
	b.until("it creates the deleted configuration again", registered)
}
