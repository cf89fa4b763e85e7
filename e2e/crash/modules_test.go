package crash_test

import (
	"fmt"
	"strings"
)

// modules is the number of the modules m01 to m10. A test runs two converges, and kills the operator in the second one.
// The first converge installs an older chart of m01, and two modules with the names old and gone. The second converge
// has the modules m01 to m10. In the second converge, the module old is disabled, and the directory of the module gone
// does not exist.
const modules = 10

// failing is the name of a further module, which exists if the field continues of the environment is set. Its hook
// fails at the first attempt at beforeHelm, and at the first attempt at afterHelm. It runs before the other modules.
const failing = "failing"

// before returns the files of the first converge, which precedes the converge in which the operator is killed.
func before() map[string]string {
	files := globalFiles()
	files["modules/values.yaml"] = "m01Enabled: true\noldEnabled: true\ngoneEnabled: true\n"
	addModule(files, "m01", "first")
	addModule(files, "old", "first")
	addModule(files, "gone", "first")
	return files
}

// after returns the files of the second converge, in which the operator is killed.
func (w *environment) after() map[string]string {
	files := globalFiles()
	flags := "oldEnabled: false\n"
	if w.continues {
		flags += failing + "Enabled: true\n"
		addModule(files, failing, "second")
	}
	for i := range modules {
		name := fmt.Sprintf("m%02d", i+1)
		flags += name + "Enabled: true\n"
		addModule(files, name, "second")
	}
	files["modules/values.yaml"] = flags
	addModule(files, "old", "first")
	return files
}

func globalFiles() map[string]string {
	return map[string]string{
		"global-hooks/all.sh": script("global/all", map[string]any{"onStartup": 1, "beforeAll": 1, "afterAll": 1},
			`[[ $context == *onStartup* ]] && echo '[{"op":"add","path":"/global/begun","value":"yes"}]' >"$VALUES_JSON_PATCH_PATH"
[[ $context == *beforeAll* ]] && echo '[{"op":"add","path":"/global/told","value":"yes"}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"`),
		"global-hooks/watch.sh": script("global/watch", watch("all", "/global"), "sleep 0.02"),
	}
}

// petals is the CustomResourceDefinition in the directory crds of the module m04.
const petals = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: petals.crash.example.com
spec:
  group: crash.example.com
  names: {kind: Petal, plural: petals}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// queueOf identifies the queue in which the tasks of a hook wait: the result is the same for all hooks of a queue. name
// is the name of the hook in the record.
func queueOf(name string) string {
	if name == failing+"/all" {
		return "the retry queue of module " + failing
	}
	if strings.HasSuffix(name, "/watch") && name != "m02/watch" {
		return name
	}
	return "main"
}

// addModule adds the files of a module to files: a chart whose ConfigMap contains the text in edition, a hook for the
// steps of a module, and a hook that watches this ConfigMap.
func addModule(files map[string]string, name, edition string) {
	dir := "modules/" + name + "/"
	files[dir+"Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n"
	files[dir+"templates/objects.yaml"] = fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: %[1]s
  labels: {all: "yes", %[1]s: "yes"}
data:
  edition: %[2]s
  begun: {{ printf "%%v %%v %%v" .Values.%[1]s.begun .Values.global.begun .Values.global.told | quote }}
  before: {{ .Values.%[1]s.before | quote }}
  after: {{ .Values.%[1]s.after | default "no" | quote }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: %[1]s
`, name, edition)
	all := map[string]any{"onStartup": 1, "beforeHelm": 1, "afterHelm": 1}
	work := fmt.Sprintf(`[[ $context == *onStartup* ]] && echo '[{"op":"add","path":"/%[1]s/begun","value":"yes"}]' >"$VALUES_JSON_PATCH_PATH"
[[ $context == *beforeHelm* ]] && echo '[{"op":"add","path":"/%[1]s/before","value":"yes"}]' >"$VALUES_JSON_PATCH_PATH"
`, name)
	queue := "/" + name
	switch name {
	case "m02": // without a queue name, the events of the hook wait in main, behind the converge
		queue = ""
	case "m03": // the hook changes the operator's ConfigMap, which happens before the transition of its task
		work += `[[ $context == *beforeHelm* ]] && echo '[{"op":"add","path":"/m03/told","value":"yes"}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"`
	case "m04": // the module contains a CRD, which is the same in all rounds because CRDs have no namespace
		files[dir+"crds/petals.yaml"] = petals
	case "m05": // the hook changes values in afterHelm, so that the run of the module is repeated
		work += `[[ $context == *afterHelm* ]] && echo '[{"op":"add","path":"/m05/after","value":"yes"}]' >"$VALUES_JSON_PATCH_PATH"`
	case failing: // the hook fails once for each binding: the failed run creates a file
		for _, binding := range []string{"beforeHelm", "afterHelm"} {
			work += fmt.Sprintf(`if [[ $context == *%[1]s* && ! -e $RECORD.%[1]s ]]; then >"$RECORD.%[1]s"; exit 1; fi
`, binding)
		}
	case "old":
		all["beforeDeleteHelm"], all["afterDeleteHelm"] = 1, 1
	}
	files[dir+"hooks/all.sh"] = script(name+"/all", all, work+"\nsleep 0.01")
	files[dir+"hooks/watch.sh"] = script(name+"/watch", watch(name, queue), "sleep 0.02")
}
