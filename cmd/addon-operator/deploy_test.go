package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// deployed reads the objects of a file in deploy into those given.
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

func defaults() Settings {
	var s Settings
	envSettings(&s, pflag.NewFlagSet("start", pflag.ContinueOnError))
	return s
}

// TestDeploymentServesWhereTheOperatorListens compares ports, Services and their
// names with the defaults of the settings.
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

// TestDeployedPodCanWriteWhereTheOperatorWrites holds the volumes to the defaults of
// the settings, as the rest of its root is read-only.
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

// TestImageHasWhatHooksAreTold looks for the programs and files that the moving
// over page and the shell framework's promise.
func TestImageHasWhatHooksAreTold(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := string(text)
	for _, want := range []string{" bash ", " coreutils ", " kubectl ", "/out/hooktools/jq ./cmd/jq", " /shell_lib.sh\n", " /frameworks\n", "/modules /global-hooks"} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("the image has no %q", strings.TrimSpace(want))
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
