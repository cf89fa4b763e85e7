package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/cmd/addon-operator/webaccess"
	"addon-operator/e2e/cluster"
)

// certify writes a certificate for host and its key to the directory of the fixture. certify returns the CAs that
// a client of the page must trust.
func (s *fixture) certify(host string) *x509.CertPool {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(host)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s.file("tls.crt", certificate)
	s.file("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(certificate))
	return pool
}

// account creates a service account in a namespace, gives it the rights in rules, and returns its
// token. The API server knows the rights when account returns.
func account(t *testing.T, k kubernetes.Interface, namespace, name string, rules ...rbac.PolicyRule) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	meta := metav1.ObjectMeta{Name: name}
	if _, err := k.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.RbacV1().Roles(namespace).Create(ctx, &rbac.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.RbacV1().RoleBindings(namespace).Create(ctx, &rbac.RoleBinding{
		ObjectMeta: meta, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: name},
		Subjects: []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: name, Namespace: namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		awaitRight(t, k, namespace, name, rule)
	}
	token, err := k.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authentication.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// awaitRight waits until the API server allows a service account the first verb of a rule, for each resource of the
// rule. The API server reads roles from a cache, which may be old.
func awaitRight(t *testing.T, k kubernetes.Interface, namespace, name string, rule rbac.PolicyRule) {
	t.Helper()
	for _, resource := range rule.Resources {
		for allowed, deadline := false, time.Now().Add(time.Minute); !allowed; time.Sleep(20 * time.Millisecond) {
			review, err := k.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + namespace + ":" + name,
				ResourceAttributes: &authorization.ResourceAttributes{Namespace: namespace, Group: rule.APIGroups[0], Verb: rule.Verbs[0], Resource: resource},
			}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if allowed = review.Status.Allowed; !allowed && time.Now().After(deadline) {
				t.Fatalf("service account %s still may not %s %s", name, rule.Verbs[0], resource)
			}
		}
	}
}

// TestWebPageWithACertificateAsksTheAPIServerWhoMaySeeAndAct sends requests with different tokens to the page of a real
// operator. Each person must be able to see and do exactly what the RBAC rules allow.
func TestWebPageWithACertificateAsksTheAPIServerWhoMaySeeAndAct(t *testing.T) {
	c := cluster.Start(t)
	namespace, k := c.Namespace(t), client(t, c)
	s := newFixture(t)
	s.file("modules/values.yaml", "firstEnabled: true\nfirst: {replicas: 2}\n")
	s.file("modules/010-first/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n")
	host, port := freeAddress(t)
	pool, address := s.certify(host), net.JoinHostPort(host, port)
	s.start(c.Kubeconfig(), namespace, "--web-listen-address", address, "--web-actions",
		"--web-tls-cert-file", s.path("tls.crt"), "--web-tls-private-key-file", s.path("tls.key"))
	s.converged()
	rule := func(verb string, resources ...string) rbac.PolicyRule {
		return rbac.PolicyRule{APIGroups: []string{webaccess.Group}, Verbs: []string{verb}, Resources: resources}
	}
	stranger := account(t, k, namespace, "stranger")
	viewer := account(t, k, namespace, "viewer", rule("get", "status"))
	actor := account(t, k, namespace, "actor", rule("get", "status", "values"), rule("create", "pauses"))
	people := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	send := func(method, path, token string, form url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return statusOf(t, people, r)
	}
	pause := url.Values{"name": {"first"}, "reason": {"a test"}, "by": {"somebody else"}}
	for _, test := range []struct {
		who, token, method, path string
		status                   int
		says                     string
	}{
		{"nobody", "", http.MethodGet, "/", 401, "Sign in"},
		{"nobody", "", http.MethodGet, "/events", 401, "Sign in"},
		{"nobody", "", http.MethodPost, "/do/pause/module", 401, "Sign in"},
		{"nobody", "", http.MethodGet, "/assets/page.css", 200, "color-scheme"},
		{"a forger", "forged", http.MethodGet, "/", 401, "Sign in"},
		{"stranger", stranger, http.MethodGet, "/", 403, "stranger may not get status"},
		{"stranger", stranger, http.MethodGet, "/events", 403, "stranger may not get status"},
		{"viewer", viewer, http.MethodGet, "/", 200, "nothing needs attention"},
		{"viewer", viewer, http.MethodGet, "/values/first", 403, "viewer may not get values"},
		{"viewer", viewer, http.MethodGet, "/release/first", 403, "viewer may not get releases"},
		{"viewer", viewer, http.MethodGet, "/logs", 403, "viewer may not get output"},
		{"viewer", viewer, http.MethodPost, "/do/pause/module", 403, "viewer may not create pauses"},
		{"actor", actor, http.MethodGet, "/values/first", 200, "/first/replicas"},
		{"actor", actor, http.MethodPost, "/do/reload", 403, "actor may not create reloads"},
		{"actor", actor, http.MethodPost, "/do/module/first/run", 403, "actor may not create modules/run first"},
		{"actor", actor, http.MethodPost, "/do/pause/module", 200, "module first paused"},
	} {
		if status, body := send(test.method, test.path, test.token, pause); status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s %s as %s: status %d instead of %d, without %q:\n%s", test.method, test.path, test.who, status, test.status, test.says, body)
		}
	}
	if timeline := s.ask("/workflow/timeline.text?subject=first"); !strings.Contains(timeline, "system:serviceaccount:"+namespace+":actor: pause module first") {
		t.Errorf("the timeline is\n%s", timeline)
	}
	t.Run("a browser keeps the token", func(t *testing.T) { signsIn(t, pool, "https://"+address, viewer) })
}

// statusOf sends a request and returns the status and the body of the response.
func statusOf(t *testing.T, from *http.Client, r *http.Request) (int, string) {
	t.Helper()
	answer, err := from.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// signsIn checks that the form of the page rejects a forged token. Then signsIn signs in with the given token, sees a
// view, and signs out.
func signsIn(t *testing.T, pool *x509.CertPool, page, token string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	post := func(path string, form url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return statusOf(t, browser, r)
	}
	if status, body := post("/sign-in", url.Values{"token": {"forged"}}); status != http.StatusUnauthorized || !strings.Contains(body, "does not accept this token") {
		t.Errorf("a forged token: status %d:\n%s", status, body)
	}
	if status, body := post("/sign-in", url.Values{"token": {token}, "back": {"/modules"}}); status != http.StatusOK || !strings.Contains(body, "<h1>Modules</h1>") ||
		!strings.Contains(body, "Sign out") {
		t.Errorf("after signing in: status %d:\n%s", status, body)
	}
	if status, body := post("/sign-out", nil); status != http.StatusUnauthorized || !strings.Contains(body, "<h1>Sign in</h1>") {
		t.Errorf("after signing out: status %d:\n%s", status, body)
	}
}
