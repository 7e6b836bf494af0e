_dispatch() {
	local words=
	case "${COMP_WORDS[*]:1:COMP_CWORD-1}" in
	"runtime configure"*) words="docker podman containerd crio --set-as-default --unset-as-default --remove --restart --dry-run --wrapper= --config-path= --runtime= --help" ;;
	"runtime") words="configure" ;;
	"rocm") words="plan matrix" ;;
	"preflight") words="--json" ;;
	"gpu-baseline") words="--help" ;;
	"gpu verify"*) words="--json" ;;
	"gpu top"*) words="--interval= --once --json --help" ;;
	"gpu status"*) words="--json" ;;
	"gpu list"*) words="--json" ;;
	"gpu health"*) words="--json" ;;
	"gpu evidence"*) words="--json" ;;
	"gpu") words="top list detect verify health status evidence withhold return prove release" ;;
	"fleet") words="--json" ;;
	"explain") words="--json" ;;
	"errors") words="--json" ;;
	"completion") words="bash zsh" ;;
	"cdi validate"*) words="--path= --json --help" ;;
	"cdi list"*) words="--json --help" ;;
	"cdi generate"*) words="--output= --format= --dry-run --help" ;;
	"cdi") words="refresh list generate validate" ;;
	"") words="plan gpu rocm preflight cdi runtime fleet errors explain completion gpu-baseline --version --help" ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
	[[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _dispatch dispatch ./dispatch
