#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Puts what an error report needs into one archive.
.DESCRIPTION
    Not yet run on Windows. The archive has names and addresses of this machine in it: look before you send it.
.PARAMETER Archive
    The archive to write; it must not exist.
.PARAMETER Trace
    A trace of the driver's events, of the ETW provider {5cdf31cf-3b81-5846-8cb0-47397bfbdd2b}, to put in too.
.EXAMPLE
    .\collect-logs.ps1 -Archive softndk-logs.zip
#>
[CmdletBinding()]
param(
    [string] $Archive = 'softndk-logs.zip',
    [string] $Trace
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

if (Test-Path $Archive) {
    throw "$Archive is there already."
}
$folder = Join-Path ([System.IO.Path]::GetTempPath()) "softndk-logs-$PID"
New-Item -ItemType Directory -Path $folder | Out-Null
try {
    $questions = [ordered]@{
        'system.txt'   = { Get-ComputerInfo -Property OsName, OsVersion, OsBuildNumber, CsNumberOfLogicalProcessors }
        'devices.txt'  = { Get-PnpDevice -Class Net | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' } | Format-List * }
        'drivers.txt'  = { pnputil.exe /enum-drivers /class Net }
        'adapters.txt' = { Get-NetAdapter -IncludeHidden | Format-List * }
        'rdma.txt'     = { Get-NetAdapterRdma | Format-List * }
        'verifier.txt' = { verifier.exe /query; verifier.exe /querysettings }
    }
    foreach ($file in $questions.Keys) {
        # What cannot be asked is a finding of its own, and the rest is still wanted.
        try {
            & $questions[$file] | Out-File (Join-Path $folder $file)
        } catch {
            "$_" | Out-File (Join-Path $folder $file)
        }
    }
    wevtutil.exe export-log System (Join-Path $folder 'system.evtx') '/query:*[System[TimeCreated[timediff(@SystemTime) <= 86400000]]]'
    foreach ($log in "$env:SystemRoot\INF\setupapi.dev.log", "$env:SystemRoot\Minidump") {
        if (Test-Path $log) {
            Copy-Item $log $folder -Recurse
        }
    }
    if ($Trace) {
        Copy-Item $Trace $folder
    }
    Compress-Archive -Path "$folder\*" -DestinationPath $Archive
} finally {
    Remove-Item $folder -Recurse
}
Write-Output "Written: $Archive"
