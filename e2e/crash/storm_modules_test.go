package crash_test

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Names of modules, hooks and labels that the checks of a storm test use.
const (
	toggled   = "m05"               // the module that edits of the ConfigMap disable and enable
	crashHook = "m10/hooks/kill.sh" // the hook that kills the operator
	crashSet  = "crash"             // label value of the objects that crashHook watches
	allHooks  = "hooks/all.sh"
	watchHook = "hooks/watch.sh"
)

// A set is the objects with one value of the label "storm", together with the hook that watches them.
type set struct {
	label string // value of the label "storm", and prefix of the names of the objects
	hook  string // the hook's module and file, as in the store; only the file for a global hook
	queue string // empty for main
	// whole is keepFullObjectsInMemory of the binding: events contain the full objects, not only filter results.
	whole bool
	// coalesced is set if the objects change so fast that the operator coalesces pending events.
	coalesced bool
	// silent is set if the hook is not run for Synchronization.
	silent bool
	// work is the shell code that the hook executes in each run.
	work string
	// settings is the value of settings in the hook's config, if any.
	settings map[string]any
}

func (s set) module() string {
	if len(s.hook) > 3 && s.hook[3] == '/' {
		return s.hook[:3]
	}
	return ""
}

// sets returns all sets of a storm test. Their hooks belong to the modules m01 to m10, and one is a global hook.
func sets() []set {
	const (
		// The patch changes the values of the module after every 200 lines of the record, so that the module runs
		// again.
		patches = `n=$(($(grep -c . "$RECORD") / 200)); echo '[{"op":"add","path":"/m04/seen","value":'$n'}]' >"$VALUES_JSON_PATCH_PATH"`
		writes  = `echo '{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m03-last","namespace":"` +
			namespace + `"},"data":{"context":"'${context##*/}'"}}}' >"$KUBERNETES_PATCH_PATH"`
		fails = `if ((RANDOM % 6 == 0)); then echo "fails	$line" >>"$RECORD"; exit 1; fi`
		kills = `if [[ -e $RECORD.armed ]]; then kill -9 $PPID; sleep 10; fi`
	)
	all := []set{
		{label: "global", hook: "watch.sh", queue: "/global"},
		{label: "m01", hook: "m01/" + watchHook},
		{label: "m02", hook: "m02/" + watchHook, silent: true},
		{label: "m03", hook: "m03/" + watchHook, queue: "/shared", work: writes},
		{label: "m04", hook: "m04/" + watchHook, queue: "/shared", work: patches},
		{label: "m05", hook: "m05/" + watchHook, queue: "/m05"},
		{label: "m06", hook: "m06/" + watchHook, queue: "/m06", whole: true},
		{label: "m07", hook: "m07/" + watchHook, queue: "/m07", silent: true, work: fails},
		{label: "m08", hook: "m08/" + watchHook, queue: "/m08", whole: true, silent: true},
		{label: "m09", hook: "m09/" + watchHook, queue: "/m09", settings: map[string]any{"executionMinInterval": "500ms", "executionBurst": 1}},
		{label: "m10", hook: "m10/" + watchHook, queue: "/m10", coalesced: true},
		{label: crashSet, hook: crashHook, queue: "/" + crashSet, silent: true, work: kills},
	}
	return all
}

// stormRecorder is the template of every hook of a storm test. The hook copies its binding context to a new file. It
// appends one line to the record at the start of a run and one line at the end, each with a single write.
const stormRecorder = `#!/bin/bash
if [[ $1 == --config ]]; then echo '%s'; exit; fi
context=$RECORD.d/$EPOCHREALTIME-$BASHPID
cp "$BINDING_CONTEXT_PATH" "$context" || exit
line="$ADDON_OPERATOR_TASK_ID	$ADDON_OPERATOR_ATTEMPT	$ADDON_OPERATOR_PREVIOUS	%s	${context##*/}"
echo "begin	$line" >>"$RECORD"
%s
echo "end	$line" >>"$RECORD"
`

func stormScript(hook string, config map[string]any, work string) string {
	config["configVersion"] = "v1"
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // happens only if a literal of these tests is wrong
	}
	return fmt.Sprintf(stormRecorder, text, hook, work)
}

// script returns the hook that watches the objects of s.
func (s set) script() string {
	binding := map[string]any{
		"name": "seen", "apiVersion": "v1", "kind": "ConfigMap", "jqFilter": "{name: .metadata.name, seq: .data.seq}",
		"labelSelector":                map[string]any{"matchLabels": map[string]string{"storm": s.label}},
		"namespace":                    map[string]any{"nameSelector": map[string]any{"matchNames": []string{namespace}}},
		"keepFullObjectsInMemory":      s.whole,
		"executeHookOnSynchronization": !s.silent,
	}
	if s.queue != "" {
		binding["queue"] = s.queue
	}
	config := map[string]any{"kubernetes": []any{binding}}
	if s.settings != nil {
		config["settings"] = s.settings
	}
	return stormScript(s.hook, config, s.work)
}

// stormFiles returns the files of all modules and global hooks of a storm test.
func stormFiles() map[string]string {
	files := map[string]string{
		"global-hooks/all.sh": stormScript("all.sh", map[string]any{"onStartup": 1, "beforeAll": 1, "afterAll": 1}, ""),
	}
	flags := "global:\n  level: 0\n"
	for _, name := range stormModules() {
		flags += name + "Enabled: true\n"
		dir := "modules/" + name + "/"
		files[dir+"Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n"
		files[dir+"values.yaml"] = name + ":\n  level: 0\n  seen: 0\n"
		files[dir+"templates/objects.yaml"] = fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: %[1]s
data:
  level: {{ .Values.%[1]s.level | quote }}
  global: {{ .Values.global.level | quote }}
  seen: {{ .Values.%[1]s.seen | quote }}
`, name)
		all := map[string]any{"onStartup": 1, "beforeHelm": 1, "afterHelm": 1}
		switch name {
		case "m02": // without a queue name, the schedule ticks wait in queue main
			all["schedule"] = []any{map[string]any{"name": "tick", "crontab": "*/3 * * * * *"}}
		case "m08":
			all["schedule"] = []any{map[string]any{"name": "tick", "crontab": "*/2 * * * * *", "queue": "/clock"}}
		case toggled:
			all["beforeDeleteHelm"], all["afterDeleteHelm"] = 1, 1
		}
		files[dir+allHooks] = stormScript(name+"/"+allHooks, all, "")
	}
	files["modules/values.yaml"] = flags
	for _, s := range sets() {
		if s.module() == "" {
			files["global-hooks/"+s.hook] = s.script()
		} else {
			files["modules/"+s.hook] = s.script()
		}
	}
	return files
}

// stormModules returns the names of all modules.
func stormModules() (names []string) {
	for _, s := range sets() {
		if m := s.module(); m != "" && !slices.Contains(names, m) {
			names = append(names, m)
		}
	}
	return names
}
