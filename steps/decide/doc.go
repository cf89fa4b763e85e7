// Package decide decides which modules are enabled: by the flags of the values files, the hooks and the
// ConfigMap, and then by the enabled scripts. It saves the decisions in the records of the modules.
package decide
