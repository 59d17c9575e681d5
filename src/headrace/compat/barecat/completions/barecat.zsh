#compdef barecat
# zsh completion for barecat, by way of the one for bash

autoload -U +X bashcompinit && bashcompinit
source "${${(%):-%x}:A:h}/barecat.bash"
