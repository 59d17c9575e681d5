# bash completion for barecat and its deprecated relatives

_barecat_commands="create c add a extract x list ls l t cat find shell browse du ncdu tree verify defrag reshard \
subset merge index-to-csv to-ncdu-json convert upgrade completion-script mount rsync"

_barecat_options() {
    case "$1" in
        create | c) echo "-T --files-from -0 --null -C --directory --exclude -i --include -j --workers -f --force \
-s --shard-size-limit --physical-order" ;;
        add | a) echo "-T --files-from -0 --null -C --directory --exclude -i --include -j --workers -c --create \
-s --shard-size-limit --physical-order" ;;
        extract | x) echo "-C --directory --pattern -x --exclude -i --include" ;;
        list | ls | l | t) echo "-l --long -R --recursive --jsonl" ;;
        find) echo "-name -path -wholename -type -size -maxdepth -print0" ;;
        shell) echo "-c --cmd -w --write" ;;
        du) echo "-a --all -s --summarize -H --human-readable -d --max-depth" ;;
        tree) echo "-L --level -d --dirs-only" ;;
        verify) echo "--quick" ;;
        defrag) echo "--quick --smart --max-seconds -n --dry-run" ;;
        reshard) echo "-s --shard-size-limit" ;;
        subset) echo "-o --output -s --shard-size-limit -f --force --pattern -i --include -x --exclude" ;;
        merge) echo "-o --output -s --shard-size-limit -f --force -a --append --symlink --ignore-duplicates \
--as-subdirs --prefix --pattern -i --include -x --exclude" ;;
        convert) echo "-s --shard-size-limit -f --force --stdin --stdout --root-dir --wrap" ;;
        upgrade) echo "-j --workers --preserve-backup --no-preserve-backup" ;;
        mount) echo "-o --options" ;;
        rsync) echo "-n --dry-run -v --verbose --progress --delete -c --checksum -u --update --include --exclude" ;;
    esac
}

_barecat() {
    local current="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$_barecat_commands" -- "$current")
    elif [ "$command" = completion-script ]; then
        mapfile -t COMPREPLY < <(compgen -W "bash zsh" -- "$current")
    elif [[ "$current" == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_barecat_options "$command") -h --help" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

complete -o filenames -F _barecat barecat
