// Package decide decides which modules are enabled. The enabled flags in the values files, those of hooks and those
// in the ConfigMap decide first, and then the enabled scripts. It saves the decisions in the records of the modules.
package decide
