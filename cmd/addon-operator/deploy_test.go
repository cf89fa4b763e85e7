package main

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/cmd/addon-operator/webaccess"
	"addon-operator/cmd/addon-operator/webui"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// deployed decodes the objects of a file in deploy into the given objects, in the order of the file.
func deployed(t *testing.T, name string, into ...any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), "\n---\n")
	if len(documents) != len(into) {
		t.Fatalf("%s has %d objects", name, len(documents))
	}
	for i, document := range documents {
		if err := yaml.UnmarshalStrict([]byte(document), into[i]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func defaults() settings.Settings {
	var s settings.Settings
	settings.Declare(&s, pflag.NewFlagSet("start", pflag.ContinueOnError))
	return s
}

// TestDeploymentServesWhereTheOperatorListens compares the ports and the names of the Services in
// deploy with the default settings.
func TestDeploymentServesWhereTheOperatorListens(t *testing.T) {
	t.Parallel()
	var set appsv1.StatefulSet
	var public, admission, conversion corev1.Service
	deployed(t, "statefulset.yaml", &set)
	deployed(t, "service.yaml", &public)
	deployed(t, "webhooks.yaml", &admission, &conversion)
	ports := map[string]int{}
	for _, p := range set.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = int(p.ContainerPort)
	}
	s := defaults()
	for _, one := range []struct {
		service        corev1.Service
		name           string
		port, listened int
	}{
		{public, set.Spec.ServiceName, s.ListenPort, s.ListenPort},
		{admission, s.Webhooks.Admission.ServiceName, 443, s.Webhooks.Admission.ListenPort},
		{conversion, s.Webhooks.Conversion.ServiceName, 443, s.Webhooks.Conversion.ListenPort},
	} {
		p := one.service.Spec.Ports[0]
		if one.service.Name != one.name || int(p.Port) != one.port || ports[p.TargetPort.StrVal] != one.listened {
			t.Errorf("Service %s: port %d leads to %s=%d; want %s, from %d to %d",
				one.service.Name, p.Port, p.TargetPort.StrVal, ports[p.TargetPort.StrVal], one.name, one.port, one.listened)
		}
		if one.service.Namespace != set.Namespace || !maps.Equal(one.service.Spec.Selector, set.Spec.Template.Labels) {
			t.Errorf("Service %s in %s selects %v, which are not the pods", one.service.Name, one.service.Namespace, one.service.Spec.Selector)
		}
	}
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(dockerfile), "\nEXPOSE "+strconv.Itoa(s.ListenPort)) {
		t.Errorf("the image does not expose port %d", s.ListenPort)
	}
}

// TestDeployedPodCanWriteWhereTheOperatorWrites compares the volumes with the default paths in the
// settings, because the root file system outside of the volumes is read-only.
func TestDeployedPodCanWriteWhereTheOperatorWrites(t *testing.T) {
	t.Parallel()
	var set appsv1.StatefulSet
	deployed(t, "statefulset.yaml", &set)
	container := set.Spec.Template.Spec.Containers[0]
	if readOnly := container.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
		t.Error("the root is not read-only")
	}
	env, known := map[string]string{}, knownVariables()
	for _, variable := range container.Env {
		env[variable.Name] = variable.Value
		if !known[variable.Name] && variable.Name != "HOME" && variable.Name != "GOMEMLIMIT" {
			t.Errorf("nothing reads variable %s", variable.Name)
		}
	}
	s := defaults()
	for _, path := range []string{s.Store, s.DebugSocket, "/tmp/addon-operator", env["HOME"]} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return !m.ReadOnly && (path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/"))
		}) {
			t.Errorf("nothing is mounted where %s is written", path)
		}
	}
}

// TestMemoryOfThePodHasRoomForAllItsParts subtracts the memory of the operator, of jq filters and of the volumes in
// memory from the memory limit of the pod. The rest must be enough for hooks.
func TestMemoryOfThePodHasRoomForAllItsParts(t *testing.T) {
	t.Parallel()
	const leastForHooks = 128 << 20
	var set appsv1.StatefulSet
	deployed(t, "statefulset.yaml", &set)
	container := set.Spec.Template.Spec.Containers[0]
	limit := container.Resources.Limits.Memory().Value()
	for _, variable := range container.Env {
		if variable.Name != "GOMEMLIMIT" {
			continue
		}
		quantity, err := resource.ParseQuantity(strings.TrimSuffix(variable.Value, "B"))
		if err != nil {
			t.Fatal(err)
		}
		limit -= quantity.Value()
	}
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if dir := volume.EmptyDir; dir != nil && dir.Medium == corev1.StorageMediumMemory {
			limit -= dir.SizeLimit.Value()
		}
	}
	if limit -= jq.MaxMemory; limit < leastForHooks {
		t.Errorf("%d MiB are left for hooks", limit>>20)
	}
}

// TestNetworkPolicyLetsInWhatIsServedToOthers compares the ports of the NetworkPolicy with the
// ports of the Services.
func TestNetworkPolicyLetsInWhatIsServedToOthers(t *testing.T) {
	t.Parallel()
	var policy networkingv1.NetworkPolicy
	var set appsv1.StatefulSet
	deployed(t, "networkpolicy.yaml", &policy)
	deployed(t, "statefulset.yaml", &set)
	if !maps.Equal(policy.Spec.PodSelector.MatchLabels, set.Spec.Template.Labels) || policy.Namespace != set.Namespace {
		t.Errorf("the policy selects %v in %s", policy.Spec.PodSelector.MatchLabels, policy.Namespace)
	}
	if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || len(policy.Spec.Ingress) != 1 {
		t.Fatalf("the policy is %+v", policy.Spec)
	}
	var open, served []string
	for _, port := range policy.Spec.Ingress[0].Ports {
		open = append(open, port.Port.StrVal)
	}
	for _, port := range set.Spec.Template.Spec.Containers[0].Ports {
		served = append(served, port.Name)
	}
	if !slices.Equal(open, served) {
		t.Errorf("open are %v, served %v", open, served)
	}
}

// TestDeployedRightsAreThoseOfThePage compares the rules in deploy with the rights that the reference page of rights
// lists. The rules must grant each listed right, and no rule of the ClusterRole may grant all verbs or all resources.
func TestDeployedRightsAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "rights.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	own, all, _ := strings.Cut(block, "---\n")
	var listed, role rbacv1.Role
	var listedAll, clusterRole rbacv1.ClusterRole
	if err := errors.Join(yaml.UnmarshalStrict([]byte(own), &listed), yaml.UnmarshalStrict([]byte(all), &listedAll)); err != nil {
		t.Fatal(err)
	}
	deployed(t, "rbac.yaml", &corev1.ServiceAccount{}, &role, &rbacv1.RoleBinding{}, &clusterRole, &rbacv1.ClusterRoleBinding{})
	for _, pair := range [][2][]rbacv1.PolicyRule{{listed.Rules, role.Rules}, {listedAll.Rules, clusterRole.Rules}} {
		if len(pair[0]) == 0 {
			t.Fatal("the page lists no rules")
		}
		for _, rule := range pair[0] {
			if !slices.ContainsFunc(pair[1], func(granted rbacv1.PolicyRule) bool { return cmp.Equal(granted, rule) }) {
				t.Errorf("deploy does not give %+v", rule)
			}
		}
	}
	for _, rule := range clusterRole.Rules {
		if slices.Contains(rule.Resources, "*") || slices.Contains(rule.Verbs, "*") {
			t.Errorf("a rule for everything is the default: %+v", rule)
		}
	}
}

// TestTheDeployedRoleAllowsWritesOfTheConfigMap writes the operator's ConfigMap in the ways that hooks cause. The Role
// must grant the verb of each request.
func TestTheDeployedRoleAllowsWritesOfTheConfigMap(t *testing.T) {
	t.Parallel()
	var role rbacv1.Role
	deployed(t, "rbac.yaml", &corev1.ServiceAccount{}, &role, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{})
	verbs := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPatch: "patch", http.MethodPut: "update"}
	for what, c := range map[string]struct {
		exists bool
		want   []string
	}{
		"created": {false, []string{"get", "create"}}, "changed": {true, []string{"get", "patch"}},
	} {
		var used []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			used = append(used, verbs[r.Method])
			w.Header().Set("Content-Type", "application/json")
			if !c.exists && r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
				return
			}
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"7"},"data":{"web":"a: 1"}}`)
		}))
		t.Cleanup(server.Close)
		client, err := kube.NewClient(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.ConfigMap(role.Namespace, "addon-operator").Update(t.Context(), func(data map[string]string) error {
			data["web"] = "a: 2"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(used, c.want) {
			t.Errorf("%s: the requests have the verbs %v, want %v", what, used, c.want)
		}
		for _, verb := range used {
			if !slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.APIGroups, "") && slices.Contains(rule.Resources, "configmaps") && slices.Contains(rule.Verbs, verb)
			}) {
				t.Errorf("%s: the Role does not grant %s of configmaps", what, verb)
			}
		}
	}
}

// TestDeployedRolesGiveEachRightOfTheWebPage compares the ClusterRoles for people with the rights that views and
// actions need.
func TestDeployedRolesGiveEachRightOfTheWebPage(t *testing.T) {
	t.Parallel()
	var binding rbacv1.ClusterRoleBinding
	var viewer, actor rbacv1.ClusterRole
	deployed(t, "web/rbac.yaml", &binding, &viewer, &actor)
	gives := func(role *rbacv1.ClusterRole, right webui.Right) bool {
		return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			resource := strings.TrimSuffix(right.Resource+"/"+right.Subresource, "/")
			return slices.Equal(rule.APIGroups, []string{webaccess.Group}) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, right.Verb)
		})
	}
	see, act := webui.Rights()
	for _, right := range see {
		if !gives(&viewer, right) || !gives(&actor, right) {
			t.Errorf("a viewer or an actor may not %s", right)
		}
	}
	for _, right := range act {
		if !gives(&actor, right) || gives(&viewer, right) {
			t.Errorf("an actor may not %s, or a viewer may", right)
		}
	}
	if len(see) < 4 || len(act) < 8 {
		t.Errorf("the page needs %v and %v", see, act)
	}
}

// TestImageHasWhatHooksAreTold checks that the Dockerfile has the programs and files that two pages of the
// documentation promise: the page about moving over, and the page of the shell framework.
func TestImageHasWhatHooksAreTold(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := string(text)
	for _, want := range []string{" bash ", " coreutils ", " kubectl ", " 'jq>=1.7' ", " /shell_lib.sh\n", " /frameworks\n", "/modules /global-hooks"} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("the image has no %q", strings.TrimSpace(want))
		}
	}
	for _, image := range []string{"BUILD_IMAGE", "BASE_IMAGE"} {
		if !regexp.MustCompile(`(?m)^ARG `+image+`=\S+:[^@\s]+@sha256:[0-9a-f]{64}$`).MatchString(dockerfile) ||
			!strings.Contains(dockerfile, "\nFROM ${"+image+"}") {
			t.Errorf("the image is not built from a %s with a tag and a digest", image)
		}
	}
	// The examples in the documents copy modules and hooks to the directories that the operator reads.
	workDir := regexp.MustCompile(`(?m)^WORKDIR (.*)$`).FindAllStringSubmatch(dockerfile, -1)
	for flag, want := range map[string]string{"modules-dir": "/modules", "global-hooks-dir": "/global-hooks"} {
		flags := pflag.NewFlagSet("start", pflag.ContinueOnError)
		settings.Declare(&settings.Settings{}, flags)
		if got := filepath.Join(workDir[len(workDir)-1][1], flags.Lookup(flag).DefValue); got != want {
			t.Errorf("in the image, --%s is %s by default", flag, got)
		}
		for _, page := range []string{"README.md", filepath.Join("docs", "moving-over.md")} {
			text, err := os.ReadFile(filepath.Join(root, page))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "COPY "+strings.TrimPrefix(want, "/")+" "+want+"\n") {
				t.Errorf("%s does not copy to %s", page, want)
			}
		}
	}
	for line := range strings.Lines(dockerfile) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "COPY" || strings.HasPrefix(fields[1], "--") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, fields[1])); err != nil {
			t.Errorf("the image copies what is not there: %v", err)
		}
	}
}

// alerts are the fields of a PrometheusRule that the file in deploy uses.
type alerts struct {
	Spec struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
}

// TestEachAlertLeadsToAnAction checks that each alert has a section in the page for people on call and a test in the
// tests of alerts. TestEachAlertLeadsToAnAction also checks that the commands that alerts name, and the kinds of
// problems that alerts select, exist.
func TestEachAlertLeadsToAnAction(t *testing.T) {
	t.Parallel()
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, tests := read("docs", "on-call.md"), read("e2e", "alerts", "tests.yaml")
	var all alerts
	if err := yaml.Unmarshal([]byte(read("deploy", "monitoring", "prometheusrule.yaml")), &all); err != nil {
		t.Fatal(err)
	}
	var names, sections []string
	selected := regexp.MustCompile(`\{kind=~?"([^"]+)"\}`)
	for _, rule := range all.Spec.Groups[0].Rules {
		names = append(names, rule.Alert)
		if !strings.Contains(tests, "\n- name: "+rule.Alert) {
			t.Errorf("no test fires %s", rule.Alert)
		}
		if args, ours := strings.CutPrefix(rule.Annotations["command"], "addon-operator "); ours {
			if cmd, rest, err := newRoot().Find(strings.Fields(args)); err != nil || len(rest) > 0 || !cmd.Runnable() {
				t.Errorf("%s: there is no command %s", rule.Alert, args)
			}
		} else if !strings.HasPrefix(rule.Annotations["command"], "kubectl -n addon-operator ") {
			t.Errorf("%s names no command", rule.Alert)
		}
		for _, match := range selected.FindAllStringSubmatch(rule.Expr, -1) {
			for kind := range strings.SplitSeq(match[1], "|") {
				if !slices.Contains(inspect.Kinds(), inspect.Kind(kind)) {
					t.Errorf("%s: no problem is of the kind %q", rule.Alert, kind)
				}
			}
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(page, -1) {
		sections = append(sections, match[1])
	}
	if diff := cmp.Diff(names, sections); diff != "" {
		t.Errorf("sections of the page (-alerts +sections):\n%s", diff)
	}
}

// TestEachKindOfProblemHasAnAlert checks that for each kind of problem, there is an alert that selects the kind, or
// another metric of the same problem. The kind store.StaleWebhook needs no alert.
func TestEachKindOfProblemHasAnAlert(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	others := map[inspect.Kind]string{
		inspect.KindFull: "store_full", inspect.KindSlow: "hook_runs_slow", inspect.Kind(store.StaleWebhook): "", // such a problem exists only while no operator runs
	}
	for _, kind := range inspect.Kinds() {
		metric, isOther := others[kind]
		if isOther && strings.Contains(string(text), metric) || regexp.MustCompile(`kind=~?"([^"]+\|)?`+string(kind)+`["|]`).Match(text) {
			continue
		}
		t.Errorf("no alert selects problems of the kind %q", kind)
	}
}

// TestServiceMonitorSelectsTheService compares the selector and the ports of the ServiceMonitor
// with the Service, and the job label in the alerts with the name of the Service.
func TestServiceMonitorSelectsTheService(t *testing.T) {
	t.Parallel()
	var monitor struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector  metav1.LabelSelector
			Endpoints []struct {
				Port, Path  string
				HonorLabels bool
			}
		}
	}
	var service corev1.Service
	deployed(t, "service.yaml", &service)
	deployed(t, filepath.Join("monitoring", "servicemonitor.yaml"), &monitor)
	if !maps.Equal(monitor.Spec.Selector.MatchLabels, service.Labels) || monitor.Namespace != service.Namespace {
		t.Errorf("the monitor selects %v in %s", monitor.Spec.Selector.MatchLabels, monitor.Namespace)
	}
	for _, endpoint := range monitor.Spec.Endpoints {
		if endpoint.Port != service.Spec.Ports[0].Name {
			t.Errorf("port %s is not one of the Service", endpoint.Port)
		}
	}
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "monitoring", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`job="([^"]*)"`).FindAllSubmatch(rules, -1) {
		if string(match[1]) != service.Name {
			t.Errorf("alerts select job %s", match[1])
		}
	}
}
