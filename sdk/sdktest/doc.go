// Package sdktest runs a hook as the operator runs it, but without a cluster: with the objects and values of a test.
//
// A [Subject] is a hook in Go or an executable in any language. A [Test] contains values and objects, and the
// snapshots of the hook's bindings. A [Result] is the result of a run. The output of a hook changes the test: patches
// change its values, and operations change its objects. [Test.Events] delivers the resulting changes to the hook, as
// a cluster would.
//
//	test := sdktest.Module(t, "web", sdktest.Go(hook))
//	test.SetValues("web: {replicas: 1}")
//	test.Put("{apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: default}}")
//	test.Ordered("beforeHelm").Must()
//	if got := test.Value("web.pods"); got != int64(1) { … }
//
// There is no API server: objects are not validated, get no defaults, and are not converted.
package sdktest
