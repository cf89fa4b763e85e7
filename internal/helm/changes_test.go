package helm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  template: {spec: {containers: [{name: main, image: "web:1"}]}}
`

func TestChangesNameObjectsAndFieldsWithoutValues(t *testing.T) {
	t.Parallel()
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: access}\nstringData: {password: hunter1, user: ann}\n"
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":    {deployment, deployment, ""},
		"form only":  {deployment, strings.ReplaceAll(deployment, "{app: web}", `{"app": "web"}`), ""},
		"one field":  {deployment, strings.ReplaceAll(deployment, "replicas: 2", "replicas: 3"), "Deployment shop/web (spec.replicas)"},
		"list":       {deployment, strings.ReplaceAll(deployment, "web:1", "web:2"), "Deployment shop/web (spec.template.spec.containers)"},
		"lost field": {deployment, strings.ReplaceAll(deployment, "  replicas: 2\n", ""), "Deployment shop/web (spec.replicas)"},
		"values are left out": {
			secret, strings.NewReplacer("hunter1", "hunter2").Replace(secret), "Secret access (stringData.password)",
		},
		"empty map": {deployment, deployment + "status: {}\n", "Deployment shop/web (status)"},
		"added and removed": {
			deployment + "---\n" + secret, "---\n" + deployment + "---\n" + strings.ReplaceAll(secret, "name: access", "name: other"),
			"Secret other (added), Secret access (removed)",
		},
		"another version of the API": {
			deployment, strings.ReplaceAll(deployment, "apps/v1", "apps/v1beta2"), "Deployment shop/web (apiVersion)",
		},
		"many": {
			deployment, strings.NewReplacer("replicas: 2", "replicas: 3\n  paused: true\n  minReadySeconds: 3\n  progressDeadlineSeconds: 9").Replace(deployment),
			"Deployment shop/web (spec.minReadySeconds, spec.paused, spec.progressDeadlineSeconds, 1 more)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, err := compare(c.before, c.after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, ChangesText(changes)); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnreadableManifestIsAnErrorAndNoChange(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"- a\n- b\n", "kind: [\n", "a: 1\nmetadata: text\n"} {
		if changes, err := compare(text, deployment); err == nil {
			t.Errorf("compared with %q: %v, want an error", text, changes)
		}
	}
}
