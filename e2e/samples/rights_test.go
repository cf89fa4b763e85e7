package samples_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/lease"
)

// forSamples are the rights that the samples need in addition to those of docs/reference/rights.md: for the objects of
// their charts, for noticing that such an object was deleted, and for their hooks. They follow from the table on that
// page. The right to patch ConfigMaps is missing, so that only the Role of that page can grant it in the operator's
// namespace. In the other namespaces, the test has no ConfigMap that a hook patches.
const forSamples = `
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, patch, update, delete]}
- {apiGroups: [""], resources: [services, resourcequotas], verbs: [get, list, watch, create, patch, update, delete]}
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, delete]}
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
`

// TestOperatorNeedsNoMoreThanTheRightsOfThePage runs the operator with the samples. Its service account has the rights
// that docs/reference/rights.md shows, and the rights in forSamples. The operator must converge, and the API server
// must not reject a request as forbidden.
func TestOperatorNeedsNoMoreThanTheRightsOfThePage(t *testing.T) {
	s, c := prepareSample(t)
	s.env.Kubeconfig = s.limited(c)
	s.process = start(t, s.env)

	s.configure(map[string]any{"web": "replicas: 3", "statusPageEnabled": "false"})
	if err := s.client.CoreV1().Services(s.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service is back", func() error {
		_, err := s.client.CoreV1().Services(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		return err
	})
	for line := range strings.Lines(s.env.Log()) {
		if strings.Contains(strings.ToLower(line), "forbidden") || strings.Contains(line, "cannot list resource") {
			t.Errorf("the operator lacks a right: %s", line)
		}
	}
}

// limited creates a service account with the rights that docs/reference/rights.md shows, and with the rights in
// forSamples. limited returns the path of a kubeconfig for this account.
func (s *sample) limited(c *cluster.Cluster) string {
	s.t.Helper()
	ctx, name := s.t.Context(), s.namespace
	role, clusterRole := rightsOfThePage(s.t)
	var more []rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(forSamples), &more); err != nil {
		s.t.Fatal(err)
	}
	role.Namespace, clusterRole.Name = name, name
	clusterRole.Rules = append(clusterRole.Rules, more...)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "limited"}}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: account.Name}}
	var err error
	did := func(e error) {
		if err == nil {
			err = e
		}
	}
	_, e := s.client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{})
	did(e)
	_, e = s.client.RbacV1().Roles(name).Create(ctx, role, metav1.CreateOptions{})
	did(e)
	_, e = s.client.RbacV1().ClusterRoles().Create(ctx, clusterRole, metav1.CreateOptions{})
	did(e)
	_, e = s.client.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "limited"}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: role.Name},
	}, metav1.CreateOptions{})
	did(e)
	_, e = s.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	did(e)
	token, e := s.client.CoreV1().ServiceAccounts(name).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	did(e)
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(s.env.Dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		s.t.Fatal(err)
	}
	s.awaitRights(path)
	return path
}

// awaitRights waits until the API server knows the roles of the user in the kubeconfig file at path. The API server reads
// roles from a cache, which may be old.
func (s *sample) awaitRights(path string) {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the API server knows the rights of the account", func() error {
		_, inRole := client.CoordinationV1().Leases(s.namespace).Get(s.t.Context(), lease.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(inRole) {
			inRole = nil
		}
		_, inClusterRole := client.CoreV1().Namespaces().List(s.t.Context(), metav1.ListOptions{Limit: 1})
		return errors.Join(inRole, inClusterRole)
	})
}

// rightsOfThePage returns the Role and the ClusterRole that docs/reference/rights.md shows.
func rightsOfThePage(t *testing.T) (role *rbacv1.Role, clusterRole *rbacv1.ClusterRole) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/rights.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	first, second, found := strings.Cut(block, "---\n")
	role, clusterRole = &rbacv1.Role{}, &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(first), role); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(second), clusterRole); err != nil || !found {
		t.Fatal("the page shows no Role and ClusterRole", err)
	}
	return role, clusterRole
}
