package inspect

// Nodes of the lifecycle that apply the ConfigMap, discover modules, run Synchronizations, upgrade a release, or delete
// a module.
const (
	configMapChanged = "configmap-changed"
	discoverModules  = "discover-modules"
	releaseCheck     = "release-check"
	releaseUpgrade   = "release-upgrade"
	releaseDelete    = "release-delete"

	moduleSynchronization  = "module-kubernetes-synchronization"
	moduleBeforeDeleteHelm = "module-beforedeletehelm"
	moduleAfterDeleteHelm  = "module-afterdeletehelm"
)

// configMapTrigger is the trigger of the lifecycle for a changed ConfigMap.
const configMapTrigger = "ConfigMap changed"
