package juju

// YAMLMap is what goes over stdin to relation-set and state-set.
var YAMLMap = yamlMap
