// Package sdktest runs a hook without a cluster: on the objects and values that a test gives, as the operator would run
// it, and shows what came of it.
//
// Its nouns are the subject, a hook in Go or an executable in any language; the test, which holds values and objects and
// knows what the hook's bindings see; and the result of a run. What a hook answers takes effect on the test: patches on
// its values, operations on its objects, of which [Test.Events] then tells the hook, as a cluster would.
//
//	test := sdktest.Module(t, "web", sdktest.Go(hook))
//	test.SetValues("web: {replicas: 1}")
//	test.Put("{apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: default}}")
//	test.Ordered("beforeHelm").Must()
//	if got := test.Value("web.pods"); got != int64(1) { … }
//
// There is no API server in it: objects are not validated, have no defaults, and are of the version they are given in.
package sdktest
