package juju

// YAMLMap is the stdin of relation-set and state-set.
var YAMLMap = yamlMap
